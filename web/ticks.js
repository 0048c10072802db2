// Ranges and labels of the charts' axes. All labels of an axis have one unit, and as many digits as
// its step needs: no two are equal.
const ticks = (() => {
  // Behind the point, of multiples of `step`.
  const digits = (step) => {
    for (let d = 0; d < 15; ++d) {
      const scaled = step * 10 ** d;
      if (Math.round(scaled) > 0 && Math.abs(scaled - Math.round(scaled)) < 1e-6) return d;
    }
    return 15;
  };
  const largest = (values) => Math.max(0, ...values.map((v) => Math.abs(v ?? 0)));
  const each = (values, text) => values.map((v) => (v === null ? '' : text(v)));

  const inUnit = (values, step, size, unit) => {
    const d = digits(step / size), format = {minimumFractionDigits: d, maximumFractionDigits: d};
    return each(values, (v) => (v / size).toLocaleString('en', format) + unit);
  };
  const plain = (values, step) => {
    const most = largest(values);
    if (most === 0 || most >= 1e-3) return inUnit(values, step, 1, '');
    const power = Math.floor(Math.log10(most)), d = digits(step / 10 ** power);
    return each(values, (v) => (v === 0 ? '0' : (v / 10 ** power).toFixed(d) + 'e' + power));
  };
  const percent = (values, step) => inUnit(values, step, 0.01, ' %');
  const withUnits = (units) => (values, step) => {
    const most = largest(values);
    for (const [size, unit] of units)
      if (most >= size) return inUnit(values, step, size, ' ' + unit);
    return plain(values, step);
  };
  const BYTES = [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [1, 'B']];
  const time = (values, step) => {
    for (const [size, unit] of [[3600, ' h'], [60, ' min']])
      if (step % size === 0) return inUnit(values, step, size, unit);
    return plain(values, step).map((text) => (text === '' ? '' : text + ' s'));
  };

  const decimal = [];
  for (let power = -9; power < 16; ++power)
    for (const m of [1, 2, 2.5, 5]) decimal.push(Number((m + 'e' + power)));
  // Of a minute and an hour, from where seconds are many.
  const times = decimal.filter((step) => step < 60)
                    .concat([60, 120, 300, 600, 1200, 1800])
                    .concat(decimal.filter((n) => n >= 1 && Number.isInteger(n)).map((n) => 3600 * n));

  // From `low` to `high` with room at both ends; neither goes beyond `bounds`, which hold a hair more,
  // so that a line along one of them is seen whole.
  const padded = (low, high, bounds, least) => {
    const span = Math.max(high - low, least), room = 0.08 * span;
    if (high - low < least) low = Math.min(low, Math.max(bounds[0], high - least / 2));
    const hair = 0.02 * span;
    return [Math.max(low - room, bounds[0] === 0 && low === 0 ? -hair : bounds[0]),
            Math.min(Math.max(high, low + least) + room, bounds[1] + hair)];
  };
  const accuracy = (low, high) => padded(low, high, [0, 1], 0.02);
  const loss = (low, high) =>
      padded(low, high, [low >= 0 ? 0 : -Infinity, Infinity], Math.max(0.02 * Math.abs(high), 1e-12));

  // The multiples of the least step of `steps` of which at most `most` lie in [from, to]; the step.
  const within = (from, to, most, steps) => {
    const step = steps.find((one) => (to - from) / one <= most) || to - from, values = [];
    for (let i = Math.ceil(from / step - 1e-9); i * step <= to * (1 + 1e-12); ++i)
      values.push(Number((i * step).toPrecision(12)));
    return [values, step];
  };

  return {
    within,
    plain,
    percent,
    time,
    bytes: withUnits(BYTES),
    samples: withUnits([[1e9, 'billion'], [1e6, 'million']]),
    steps: {time: times, decimal},
    accuracy,
    loss,
  };
})();
