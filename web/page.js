// Draws the runs of the data beside it. Every text of the data goes in as text, never as markup,
// but for the plan, which is an SVG that the program made.
(() => {
  const $ = (id) => document.getElementById(id);
  let data = JSON.parse($('data').textContent);

  // Six of Okabe and Ito's palette, which most colour-blind people tell apart, and two; dashes beyond.
  const PALETTE =
      ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#8a6d00', '#7f7f7f'];
  const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
  const STATES = {computing: '#0072b2', lost: '#000000', exchange: '#e69f00'};
  const CAUSES = ['#cc79a7', '#009e73', '#56b4e9', '#d55e00', '#f0e442', '#8a6d00'];

  const hidden = new Set();
  let axis = 'time_s', logarithmic = false;
  let chosen = 0;
  let zoom = null;  // of the timeline: [from, to] in seconds

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // By combination: its seeds look alike.
  const colour = (i) => PALETTE[data.runs[i].group % PALETTE.length];
  const dash = (i) => DASHES[Math.floor(data.runs[i].group / PALETTE.length) % DASHES.length];
  const element = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    if (text !== undefined && text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const short = (v, digits = 3) =>
      (v === null || v === undefined ? '–' : Number(v.toPrecision(digits)).toLocaleString('en'));
  const seconds = (v) => {
    if (v === null || v === undefined) return '–';
    if (v < 120) return short(v) + ' s';
    return v < 7200 ? short(v / 60) + ' min' : short(v / 3600) + ' h';
  };
  const bytes = (v) => {
    if (v === null || v === undefined) return '–';
    const units = [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']];
    for (const [size, unit] of units)
      if (v >= size) return short(v / size) + ' ' + unit;
    return short(v) + ' B';
  };
  const isAccuracy = (run) => run.score_unit === 'accuracy';
  const scoreText = (run, v) =>
      (v === null || v === undefined ? 'not scored' :
           isAccuracy(run)           ? (100 * v).toFixed(2) + ' %' :
                                       v.toFixed(4));
  const last = (list) => (list.length ? list[list.length - 1] : null);

  // Puts the rows into the table; cells that are there already get a new text, so that what a user
  // selects or is about to click stays in place on a live page.
  function setRows(table, rows) {
    const old = [...table.rows];
    const alike = (a, b) => a.cells.length === b.cells.length && a.className === b.className;
    if (old.length !== rows.length || !old.every((row, i) => alike(row, rows[i]))) {
      table.replaceChildren(...rows);
      return;
    }
    old.forEach((row, i) => {
      const fresh = [...rows[i].cells];
      [...row.cells].forEach((cell, k) => {
        if (cell.textContent !== fresh[k].textContent) cell.replaceWith(fresh[k]);
      });
    });
  }

  // ---- the list of runs

  // "virtual ", "real ", or "" where the runs have both, or it is not known.
  const clocks = () => new Set(data.runs.map((run) => run.clock));
  const clock = () => (clocks().size === 1 && data.runs[0].clock ? data.runs[0].clock + ' ' : '');
  const BOTH = 'Times of simulated runs are virtual seconds, those of runs over sockets real ones: ' +
      'compare each with its like.';
  const sentText = (run, v) => (run.of_site          ? bytes(v) + ' by ' + run.of_site :
                                run.sites.length === 1 ? 'one site' :
                                                         bytes(v));

  const figures = (run) => {
    const s = run.summary || {};
    return {
      target: s.time_to_target_s,
      time: run.time_s,
      rounds: s.rounds ?? run.round,
      bytes: s.wan_bytes ?? run.wan_bytes,
      computing: s.compute_utilisation,
      score: (isAccuracy(run) ? s.final_accuracy : s.bits_per_byte) ?? last(run.scores.score),
      ended: s.stop_reason ?? 'under way',
    };
  };

  function drawRuns() {
    const rows = [];
    const head = element('tr');
    const targets = data.runs.some((run) => run.target !== null);
    for (const title
             of ['run', targets ? 'to the target' : null, clock() + 'time', 'rounds', 'between sites',
                 'computing', data.runs.length ? data.runs[0].score_unit : 'score', 'ended by'])
      if (title) head.append(element('th', title));
    rows.push(head);
    data.runs.forEach((run, i) => {
      const f = figures(run);
      const row = element('tr', null, hidden.has(run.folder) ? {class: 'off'} : {});
      const box = element('input', null, {type: 'checkbox', 'data-run': i});
      box.checked = !hidden.has(run.folder);
      box.addEventListener('change', () => {
        if (box.checked)
          hidden.delete(run.folder);
        else
          hidden.add(run.folder);
        drawRuns();
        drawCharts();
      });
      const swatch = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      swatch.setAttribute('class', 'swatch');
      swatch.setAttribute('viewBox', '0 0 26 10');
      const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      line.setAttribute('d', 'M0 5H26');
      line.setAttribute('stroke', colour(i));
      line.setAttribute('stroke-width', '3');
      line.setAttribute('stroke-dasharray', dash(i).join(' '));
      swatch.append(line);
      const label = element('label');
      label.append(box, swatch, document.createTextNode(run.label));
      const cell = element('td');
      cell.append(label);
      row.append(cell);
      if (targets)
        row.append(element(
            'td', f.target === null || f.target === undefined ? 'not reached' : seconds(f.target)));
      row.append(
          element('td', seconds(f.time)), element('td', short(f.rounds, 9)),
          element('td', sentText(run, f.bytes)),
          element('td', f.computing === undefined ? '–' : (100 * f.computing).toFixed(1) + ' %'),
          element('td', scoreText(run, f.score)), element('td', f.ended.replaceAll('_', ' ')));
      rows.push(row);
    });
    setRows($('runs'), rows);
  }

  // ---- score and loss

  const charts = {};
  const AXES = {
    time_s: {ticks: ticks.time, steps: ticks.steps.time, text: seconds},
    wan_bytes: {ticks: ticks.bytes, steps: ticks.steps.decimal, text: bytes},
    samples: {ticks: ticks.samples, steps: ticks.steps.decimal, text: (v) => short(v)}
  };

  // uPlot joins by x, which must increase within each run.
  function table(run, key) {
    const xs = [], ys = [];
    run.scores[axis].forEach((x, i) => {
      const y = run.scores[key][i];
      if (y === null || x === null || (logarithmic && x <= 0)) return;
      if (xs.length && x <= xs[xs.length - 1]) {
        ys[ys.length - 1] = y;
        return;
      }
      xs.push(x);
      ys.push(y);
    });
    return [xs, ys];
  }

  // What is drawn in the chart of a figure, "score" or "loss".
  function figureOf(key) {
    const any = data.runs[0], shown = [];
    data.runs.forEach((run, i) => {
      if (hidden.has(run.folder)) return;
      const points = table(run, key);
      if (points[0].length) shown.push({run, i, points});
    });
    const percents = key === 'score' && isAccuracy(any);
    return {
      shown,
      target: key === 'score' ? any.target : null,
      ticks: percents ? ticks.percent : ticks.plain,
      range: percents ? ticks.accuracy : ticks.loss,
      text: percents ? (v) => (100 * v).toFixed(2) + ' %' : (v) => short(v, 4),
    };
  }

  // A dashed line at the target.
  function drawTarget(u, target, scale) {
    if (target === null) return;
    const y = Math.round(u.valToPos(target, 'y', true)), dot = scale * devicePixelRatio;
    if (y < u.bbox.top || y > u.bbox.top + u.bbox.height) return;
    u.ctx.save();
    u.ctx.strokeStyle = css('--faint');
    u.ctx.lineWidth = dot;
    u.ctx.setLineDash([4 * dot, 4 * dot]);
    u.ctx.beginPath();
    u.ctx.moveTo(u.bbox.left, y);
    u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
    u.ctx.stroke();
    u.ctx.restore();
  }

  // A uPlot's options. `scale`: of letters and lines, as in a picture; 1 on the page.
  function chartOptions(figure, width, height, scale) {
    const {shown, target} = figure, over = AXES[axis], line = css('--line');
    const first = Math.min(...shown.map((one) => one.points[0][0]));
    const ofAxis = {
      stroke: css('--faint'),
      grid: {stroke: line, width: scale},
      ticks: {stroke: line, width: scale, size: 6 * scale},
      gap: 4 * scale,
      font: 12 * scale + 'px system-ui, sans-serif'
    };
    const widest = (texts) => Math.max(0, ...(texts || []).map((text) => (text || '').length));
    return {
      width,
      height,
      padding: [12 * scale, 16 * scale, 4 * scale, 0],
      scales: {
        // From the start, unless it was zoomed.
        x: logarithmic ? {time: false, distr: 3} :
                         {
                           time: false,
                           range: (u, from, to) => (from === null   ? [0, 1] :
                                                    from > first    ? [from, to] :
                                                                      [0, to > 0 ? to : 1])
                         },
        y: {
          range: (u, low, high) => (low === null ? [0, 1] :
                                    target === null ?
                                                   figure.range(low, high) :
                                                   figure.range(
                                                       Math.min(low, target), Math.max(high, target)))
        },
      },
      legend: {show: scale === 1 && shown.length <= 8, live: true},
      cursor: {y: false, show: scale === 1},
      axes: [
        {
          ...ofAxis,
          space: 76 * scale,
          size: 34 * scale,
          ...(logarithmic ? {} : {incrs: over.steps}),
          values: (u, values, i, space, step) =>
              (logarithmic ? values.map((v) => (v === null ? '' : over.text(v))) :
                             over.ticks(values, step))
        },
        {
          ...ofAxis,
          space: 34 * scale,
          incrs: ticks.steps.decimal,
          size: (u, texts) => (18 + 7 * Math.max(4, widest(texts))) * scale,
          values: (u, values, i, space, step) => figure.ticks(values, step)
        },
      ],
      series: [{label: 'at', value: (u, v) => (v === null ? '–' : over.text(v))}].concat(
          shown.map(({run, i, points}) => ({
                      label: run.label,
                      stroke: colour(i),
                      dash: dash(i).map((d) => d * scale),
                      width: 2 * scale,
                      spanGaps: true,
                      points: {show: points[0].length < 3, size: 6 * scale},
                      value: (u, v) => (v === null ? '–' : figure.text(v)),
                    }))),
      hooks: {draw: [(u) => drawTarget(u, target, scale)]},
    };
  }

  function drawChart(id) {
    const box = $(id), figure = figureOf(id), {shown} = figure;
    const tables = shown.map((one) => one.points);
    // The same lines over the same axis get their new points; what was zoomed stays so.
    const drawing = JSON.stringify([
      axis, logarithmic, box.clientWidth, css('--line'), figure.target,
      shown.map(({run, i, points}) => [i, run.label, points[0][0]])
    ]);
    if (charts[id] && charts[id].drawing === drawing) {
      const chart = charts[id], xs = chart.data[0], {min, max} = chart.scales.x;
      const zoomed = xs.length > 1 && (min > xs[0] || max < xs[xs.length - 1]);
      chart.setData(uPlot.join(tables), !zoomed);
      return;
    }
    if (charts[id]) {
      charts[id].destroy();
      delete charts[id];
    }
    box.replaceChildren();
    if (!tables.length) {
      const why = 'No model has been scored on the way; [report] every_rounds says how often one is.';
      box.append(element('p', why, {class: 'hint'}));
      return;
    }
    charts[id] = new uPlot(chartOptions(figure, box.clientWidth, 280, 1), uPlot.join(tables), box);
    charts[id].drawing = drawing;
  }

  function drawCharts() {
    for (const button of document.querySelectorAll('#axis button'))
      button.setAttribute(
          'aria-pressed',
          String(button.id === 'log' ? logarithmic : button.dataset.axis === axis));
    const any = data.runs[0];
    if (!any) return;
    $('clocks').textContent =
        axis === 'time_s' && clocks().has('real') && clocks().size > 1 ? BOTH : '';
    $('score-title').textContent = (isAccuracy(any) ? 'Accuracy' : 'Bits per byte') +
        ' on the test set' + (any.target === null ? '' : ' (dashed: the target)');
    drawChart('score');
    drawChart('loss');
  }

  // ---- what the sites did

  // Rows of {name, states: [[state, bin_s, shares 0..1]], sent: [0..1], bin_s, lost: [[from, to]]}.
  function rowsOf(run) {
    const activity =
        run.activity && run.activity.sites && run.activity.sites.length ? run.activity : null;
    const names = activity ? activity.sites.map((site) => site.name) : run.sites;
    const most =
        activity ? Math.max(1, ...activity.sites.map((site) => Math.max(0, ...site.sent))) : 1;
    return names.map((name, i) => {
      const site = activity ? activity.sites[i] : null;
      const waits = run.waits.filter((lane) => lane.site === name);
      const states = [];
      if (site)
        states.push({
          state: 'computing',
          bin: activity.bin_s,
          shares: site.computing.map((s) => s / activity.bin_s / Math.max(1, site.nodes))
        });
      for (const lane of waits)
        states.push({state: lane.cause, bin: lane.bin_s, shares: lane.shares.map((s) => s / 1000)});
      return {
        name,
        states,
        bin: activity ? activity.bin_s : 1,
        sent: site ? site.sent.map((b) => b / most) : [],
        lost: site ? site.lost : []
      };
    });
  }

  function stateColours(rows) {
    const colours = {...STATES, lost: css('--text')};
    let next = 0;
    for (const row of rows)
      for (const {state} of row.states)
        if (!(state in colours)) colours[state] = CAUSES[next++ % CAUSES.length];
    return colours;
  }

  function shareAt(state, time) {
    return Math.min(1, Math.max(0, state.shares[Math.floor(time / state.bin)] || 0));
  }

  // `scale`: of letters and bars, as in a picture; 1 on the page. The canvas is as wide as it says.
  function paintTimeline(run, canvas, width, scale) {
    const rows = rowsOf(run), colours = stateColours(rows), dot = window.devicePixelRatio || 1;
    const rowHeight = (rows.length > 24 ? 18 : 34) * scale, bar = (rows.length > 24 ? 12 : 20) * scale;
    const top = 6 * scale, bottom = 24 * scale, height = top + rows.length * rowHeight + bottom;
    canvas.width = width * dot;
    canvas.height = height * dot;
    const g = canvas.getContext('2d');
    g.scale(dot, dot);
    g.clearRect(0, 0, width, height);
    g.font = 12 * scale + 'px system-ui, sans-serif';
    const names = Math.max(...rows.map((row) => g.measureText(row.name).width), 10);
    const left = Math.round(Math.min(width * 0.3, 14 * scale + names)), right = width - 4 * scale;
    const [from, to] = zoom || [0, Math.max(run.time_s, 1e-9)];
    const x = (t) => left + ((t - from) / (to - from)) * (right - left);
    const columns = Math.floor((right - left) * dot);  // one for each pixel of the screen
    rows.forEach((row, i) => {
      const y = top + i * rowHeight;
      g.fillStyle = css('--text');
      g.textBaseline = 'middle';
      g.fillText(row.name, 2 * scale, y + bar / 2, left - 8 * scale);
      g.fillStyle = css('--panel');
      g.fillRect(left, y, right - left, bar);
      for (let c = 0; c < columns; ++c) {
        const t = from + ((c + 0.5) / columns) * (to - from);
        if (t > run.time_s) break;
        const px = left + c / dot, pw = 1 / dot;
        let filled = 0;
        for (const state of row.states) {
          const share = Math.min(shareAt(state, t), 1 - filled);
          if (share <= 0) continue;
          g.fillStyle = colours[state.state];
          g.fillRect(px, y + bar * (1 - filled - share), pw, bar * share);
          filled += share;
        }
        const sent = row.sent[Math.floor(t / row.bin)] || 0;
        if (sent > 0) {
          g.fillStyle = colours.sent || '#009e73';
          g.fillRect(px, y + bar + scale, pw, Math.max(1, sent * (rowHeight - bar) * 0.64));
        }
      }
      for (const [a, b] of row.lost) {
        g.fillStyle = colours.lost;
        const l = Math.max(a, from), r = Math.min(b === null ? run.time_s : b, to);
        if (l <= r) g.fillRect(x(l), y, Math.max(2 * scale, x(r) - x(l)), bar);
      }
    });
    g.fillStyle = css('--faint');
    g.textBaseline = 'top';
    const [marks, step] = ticks.within(from, to, width / scale < 500 ? 3 : 8, ticks.steps.time);
    ticks.time(marks, step).forEach((text, i) => {
      const at = x(marks[i]), half = g.measureText(text).width / 2;
      g.textAlign = 'center';
      g.fillText(text, Math.min(at, width - half), height - bottom + 6 * scale);
      g.fillRect(at, height - bottom, scale, 4 * scale);
    });
    g.textAlign = 'left';
    return {rows, colours, height, scale: {left, width, from, to}};
  }

  function drawTimeline(run) {
    const canvas = $('timeline');
    const painted = paintTimeline(run, canvas, canvas.clientWidth || 300, 1);
    const {rows, colours} = painted;
    canvas.style.height = painted.height + 'px';
    canvas.dataset.scale = JSON.stringify(painted.scale);
    const legend = $('legend');
    legend.replaceChildren();
    const used = new Set(rows.flatMap((row) => row.states.map((s) => s.state)));
    const names = [...used].map(
        (s) => [s, s === 'computing' ? 'computing' : 'waiting: ' + s.replaceAll('_', ' ')]);
    if (rows.some((row) => row.sent.length)) names.push(['sent', 'sending']);
    if (rows.some((row) => row.lost.length)) names.push(['lost', 'lost']);
    for (const [state, text] of names) {
      const one = element('span');
      const swatch = element(
          'i', null, {class: 'swatch', style: 'background:' + (colours[state] || '#009e73')});
      one.append(swatch, document.createTextNode(text));
      legend.append(one);
    }
    if (!names.length)
      legend.append(element('span', 'Nothing was recorded of this run\'s sites yet.'));
  }

  function zoomable() {
    const canvas = $('timeline');
    let begun = null;
    const timeAt = (event) => {
      const s = JSON.parse(canvas.dataset.scale),
            px = event.clientX - canvas.getBoundingClientRect().left;
      return s.from +
          (Math.min(Math.max(px - s.left, 0), s.width - s.left - 4) / (s.width - s.left - 4)) *
          (s.to - s.from);
    };
    canvas.addEventListener('pointerdown', (event) => {
      begun = timeAt(event);
    });
    canvas.addEventListener('pointerup', (event) => {
      if (begun === null) return;
      const ended = timeAt(event), range = [Math.min(begun, ended), Math.max(begun, ended)];
      begun = null;
      const s = JSON.parse(canvas.dataset.scale);
      if (range[1] - range[0] < (s.to - s.from) / 100) return;
      zoom = range;
      drawRun();
    });
    canvas.addEventListener('dblclick', () => {
      zoom = null;
      drawRun();
    });
    $('reset').addEventListener('click', () => {
      zoom = null;
      drawRun();
    });
  }

  // ---- links, plan, figures

  function linksOf(run) {
    if (run.activity && run.activity.links && run.activity.links.length)
      return {names: run.activity.sites.map((s) => s.name), links: run.activity.links, what: ''};
    if (run.plan && run.plan.pairs && run.plan.pairs.length) {
      const names = run.plan.sites.map((s) => s.name);
      return {
        names,
        what: 'As planned, for one round.',
        links: run.plan.pairs.map((p) => [names.indexOf(p.from), names.indexOf(p.to), p.bytes])
      };
    }
    return null;
  }

  function drawLinks(run) {
    const box = $('links'), found = linksOf(run);
    box.replaceChildren();
    if (!found) {
      box.append(element('p', 'Not known of this run.'));
      return;
    }
    const most = Math.max(...found.links.map((l) => l[2]));
    const cells = new Map(found.links.map(([a, b, v]) => [a + ' ' + b, v]));
    const small = found.names.length > 12;
    const made = element('table');
    const head = element('tr');
    head.append(element('th', 'from \\ to'));
    for (const name of found.names)
      head.append(element('th', small ? name.slice(0, 3) : name, {title: name}));
    made.append(head);
    found.names.forEach((name, a) => {
      const row = element('tr');
      row.append(element('th', name));
      found.names.forEach((other, b) => {
        const v = cells.get(a + ' ' + b) || 0;
        const cell = element(
            'td', v && !small ? bytes(v) : '', {title: name + ' to ' + other + ': ' + bytes(v)});
        const share = v / most;
        if (a === b)
          cell.style.background = 'none';
        else
          cell.style.background = 'rgba(var(--heat), ' + (v ? 0.08 + 0.82 * share : 0.02) + ')';
        if (share > 0.55) cell.style.color = css('--page');
        row.append(cell);
      });
      made.append(row);
    });
    box.append(made);
    if (found.what) box.append(element('p', found.what));
  }

  function drawPlan(run) {
    const box = $('plan');
    box.replaceChildren();
    $('plan-title').textContent =
        run.busiest === undefined ? 'Plan of the overlay' : 'Who sent how much to whom';
    $('save-plan').hidden = !run.plan_svg;
    if (!run.plan_svg) {
      box.append(element(
          'p',
          run.sites.length === 1 ? 'There is one site.' :
          run.plan && run.plan.planned === false ? 'This overlay decides while it runs.' :
                                                   'Not known of this run.'));
      return;
    }
    const parsed = new DOMParser().parseFromString(run.plan_svg, 'image/svg+xml').documentElement;
    if (!parsed.getAttribute('viewBox'))
      parsed.setAttribute(
          'viewBox',
          '0 0 ' + parseFloat(parsed.getAttribute('width')) + ' ' +
              parseFloat(parsed.getAttribute('height')));
    box.append(document.importNode(parsed, true));
  }

  function drawBars(id, entries, none) {
    const box = $(id);
    box.replaceChildren();
    if (!entries.length) {
      box.append(element('p', none));
      return;
    }
    const most = Math.max(...entries.map((e) => e[1]), 1e-12);
    for (const [name, value, text] of entries) {
      const row = element('div', null, {class: 'bar'});
      const track = element('div');
      track.append(element('i', null, {style: 'width:' + (100 * value) / most + '%'}));
      row.append(element('span', name), track, element('span', text));
      box.append(row);
    }
  }

  function drawFigures(run) {
    const s = run.summary || {};
    const stale = Object.entries(s.staleness || {})
                      .map(([k, v]) => [Number(k), v])
                      .sort((a, b) => a[0] - b[0]);
    const all = stale.reduce((sum, e) => sum + e[1], 0);
    drawBars(
        'staleness',
        stale.slice(0, 16).map(
            ([
              k, v
            ]) => [k + (k === 1 ? ' round' : ' rounds'), v, ((100 * v) / all).toFixed(1) + ' %']),
        'This strategy records none.');
    drawBars(
        'waiting',
        Object.entries(s.waiting_s || {})
            .map(([k, v]) => ['for the ' + k.replaceAll('_', ' '), v, seconds(v)]),
        'This strategy records none.');
    drawBars(
        'site-scores',
        (s.site_scores || []).map((one) => [
          one.site, one.accuracy,
          (one.accuracy === null ? '' : (100 * one.accuracy).toFixed(2) + ' %, ') +
              (one.loss === null ? 'not scored' :
                                   'loss ' + one.loss.toFixed(4) + ', ' + one.samples + ' samples')
        ]),
        'All sites score the same test set.');
    const warnings = $('warnings');
    warnings.replaceChildren(...(s.warnings || []).map((text) => element('p', text)));
    if (!warnings.childElementCount) warnings.append(element('p', 'None.'));
  }

  function fillDifferences(id, keys) {
    const made = $(id);
    made.replaceChildren();
    if (data.runs.length < 2 || !keys.length) {
      made.append(element(
          'caption', data.runs.length < 2 ? 'There is one run.' : 'None but the seed.',
          {class: 'hint'}));
      return;
    }
    const head = element('tr');
    head.append(element('th', 'setting'));
    for (const run of data.runs) head.append(element('th', run.label));
    made.append(head);
    for (const key of keys) {
      const row = element('tr');
      row.append(element('td', key));
      for (const run of data.runs) row.append(element('td', (run.settings || {})[key] ?? '–'));
      made.append(row);
    }
  }

  function drawSettings() {
    const keys = [...new Set(data.runs.flatMap((run) => Object.keys(run.settings || {})))];
    const differ = keys.filter(
        (key) => new Set(data.runs.map((run) => (run.settings || {})[key])).size > 1 &&
            key !== '[job] seed');
    const everywhere = (key) => data.runs.every((run) => key in (run.settings || {}));
    fillDifferences('differences', differ.filter(everywhere));
    fillDifferences('partial', differ.filter((key) => !everywhere(key)));
    const table = $('settings'), run = data.runs[chosen];
    table.replaceChildren();
    for (const [key, value] of Object.entries((run && run.settings) || {})) {
      const row = element('tr');
      row.append(
          element('td', key),
          element('td', value.length > 200 ? value.slice(0, 200) + ' ...' : value));
      table.append(row);
    }
  }

  function drawRun() {
    const run = data.runs[chosen];
    if (!run) return;
    drawTimeline(run);
    drawLinks(run);
    drawPlan(run);
    drawFigures(run);
  }

  // ---- pictures for slides: as wide as one, with letters that are read from the back

  const PICTURE = 1920, LETTERS = 2.2;

  // What is to be beside the canvas: a title, and lines of [colour, dash, text].
  function saved(name, title, canvas, legend) {
    const size = 13 * LETTERS, line = 20 * LETTERS, margin = size / 2, key = 30 * LETTERS;
    const made = document.createElement('canvas'), g = made.getContext('2d');
    g.font = size + 'px system-ui, sans-serif';
    const widest = Math.max(...legend.map((entry) => g.measureText(entry[2]).width), 0);
    const column = key + widest + size;
    const columns = Math.max(1, Math.floor((PICTURE - margin) / column));
    made.width = PICTURE;
    made.height = Math.ceil(canvas.height + line * (2 + Math.ceil(legend.length / columns)));
    g.fillStyle = css('--page');
    g.fillRect(0, 0, made.width, made.height);
    g.drawImage(canvas, 0, line * 1.5);
    g.fillStyle = css('--text');
    g.font = 'bold ' + size + 'px system-ui, sans-serif';
    g.fillText(title, margin, line, PICTURE - 2 * margin);
    g.font = size + 'px system-ui, sans-serif';
    g.lineWidth = 3 * LETTERS;
    legend.forEach(([stroke, dashes, text], i) => {
      const x = margin + (i % columns) * column;
      const y = canvas.height + line * (2 + Math.floor(i / columns));
      g.strokeStyle = stroke;
      g.setLineDash(dashes.map((d) => d * LETTERS));
      g.beginPath();
      g.moveTo(x, y);
      g.lineTo(x + 24 * LETTERS, y);
      g.stroke();
      g.fillText(text, x + key, y + size / 3, PICTURE - x - key - margin);
    });
    element('a', null, {href: made.toDataURL('image/png'), download: name + '.png'}).click();
  }

  // Drawn anew, at the size of the picture; what is zoomed on the page is in the picture.
  async function saveChart(id) {
    if (!charts[id]) return;
    const figure = figureOf(id), dot = window.devicePixelRatio || 1, page = charts[id].scales.x;
    const options = chartOptions(figure, PICTURE / dot, 840 / dot, LETTERS / dot);
    const aside = element('div', null, {style: 'position:absolute;visibility:hidden;left:-99999px'});
    document.body.append(aside);
    const chart = new uPlot(options, uPlot.join(figure.shown.map((one) => one.points)), aside);
    chart.setScale('x', {min: page.min, max: page.max});
    await Promise.resolve();  // uPlot draws after what is under way
    const title = $(id).parentElement.querySelector('figcaption').textContent;
    const word = document.querySelector('#axis [data-axis=' + axis + ']').textContent;
    const over = (axis === 'time_s' ? clock() : '') + word;
    saved(
        id, title + ', over ' + over, chart.ctx.canvas,
        figure.shown.map(({run, i}) => [colour(i), dash(i), run.label]));
    chart.destroy();
    aside.remove();
  }

  function saveTimeline() {
    const run = data.runs[chosen];
    if (!run) return;
    const dot = window.devicePixelRatio || 1, canvas = document.createElement('canvas');
    const {colours} = paintTimeline(run, canvas, PICTURE / dot, LETTERS / dot);
    const entries = [...$('legend').querySelectorAll('span')].filter((s) => s.firstElementChild);
    saved(
        'sites', 'What the sites did: ' + run.label, canvas,
        entries.map((s) => [s.firstElementChild.style.background || colours.computing, [],
                            s.textContent]));
  }

  function savePlan() {
    const svg = data.runs[chosen] && data.runs[chosen].plan_svg;
    if (!svg) return;
    const href = URL.createObjectURL(new Blob([svg], {type: 'image/svg+xml'}));
    element('a', null, {href, download: 'links.svg'}).click();
  }

  function drawChoice() {
    const select = $('choose');
    const labels = data.runs.map((run) => run.label);
    if (JSON.stringify(labels) === JSON.stringify([...select.options].map((o) => o.text))) return;
    select.replaceChildren();
    data.runs.forEach((run, i) => {
      const option = element('option', run.label, {value: i});
      if (i === chosen) option.selected = true;
      select.append(option);
    });
  }

  function drawAll() {
    $('verdict').textContent = data.verdict;
    drawRuns();
    drawCharts();
    drawChoice();
    drawRun();
    drawSettings();
  }

  // docs/report.md says what a change is.
  function change([path, value, more]) {
    const inside = path.slice(0, more === undefined ? -1 : path.length)
                       .reduce((at, key) => at[key], data);
    if (more === undefined)
      inside[path[path.length - 1]] = value;
    else
      inside.push(...more);
  }

  // Only what shows the things that changed; keys of a run.
  function drawChanged(keys) {
    const has = (...names) => names.some((name) => keys.has(name));
    $('verdict').textContent = data.verdict;
    drawRuns();
    if (has('scores', 'time_s')) drawCharts();
    if (has('activity', 'waits', 'time_s')) drawTimeline(data.runs[chosen]);
    if (has('activity', 'plan')) drawLinks(data.runs[chosen]);
    if (has('summary')) drawFigures(data.runs[chosen]);
    if (has('plan_svg')) drawPlan(data.runs[chosen]);
    if (has('settings')) drawSettings();
  }

  function follow() {
    const note = $('live');
    note.hidden = false;
    note.textContent = 'waiting for the run ...';
    const source = new EventSource('events');
    let updates = 0;
    const news = () => {
      const run = data.runs[chosen];
      note.dataset.updates = ++updates;
      note.textContent = 'live: ' + seconds(run.time_s) + ', round ' + short(run.round, 9) +
          (run.max_rounds ? ' of ' + short(run.max_rounds, 9) : '') +
          (run.summary ? ', ended by ' + run.summary.stop_reason.replaceAll('_', ' ') : '');
    };
    source.addEventListener('runs', (event) => {
      data = JSON.parse(event.data);
      drawAll();
      news();
    });
    source.addEventListener('changes', (event) => {
      const changes = JSON.parse(event.data);
      changes.forEach(change);
      if (changes.some(([path]) => path.length < 3 && path[0] !== 'verdict'))
        drawAll();
      else
        drawChanged(new Set(changes.map(([path]) => path[2])));
      news();
    });
    source.onerror = () => {
      note.textContent =
          'no connection: the run has ended or was stopped; what is shown is the last that came';
    };
  }

  $('log').addEventListener('click', () => {
    logarithmic = !logarithmic;
    drawCharts();
  });
  document.querySelectorAll('#axis button[data-axis]')
      .forEach((button) => button.addEventListener('click', () => {
        axis = button.dataset.axis;
        drawCharts();
      }));
  $('choose').addEventListener('change', (event) => {
    chosen = Number(event.target.value);
    zoom = null;
    drawRun();
    drawSettings();
  });
  document.querySelectorAll('[data-save]')
      .forEach((button) => button.addEventListener('click', () => saveChart(button.dataset.save)));
  $('save-timeline').addEventListener('click', saveTimeline);
  $('save-plan').addEventListener('click', savePlan);
  zoomable();
  let resized = null;
  const redraw = () => {
    clearTimeout(resized);
    resized = setTimeout(() => {
      drawCharts();
      drawRun();
    }, 100);
  };
  let width = innerWidth;
  addEventListener('resize', () => {
    if (innerWidth !== width) {
      width = innerWidth;
      redraw();
    }
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  // Canvases keep the colours and the width that they were drawn with: for paper, others.
  for (const [event, paper] of [['beforeprint', true], ['afterprint', false]])
    addEventListener(event, () => {
      document.documentElement.classList.toggle('paper', paper);
      drawCharts();
      drawRun();
    });
  drawAll();
  if (LIVE) follow();
})();
