const faults = [];
const say = (what, element) => faults.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
const isSeen = (element) => element.checkVisibility({ visibilityProperty: true });
const all = (css) => [...document.querySelectorAll(css)].filter(isSeen);

if (!document.documentElement.lang) faults.push('no language');
if (!document.title) faults.push('no title');
if (document.querySelectorAll('main').length !== 1) faults.push('not one main');
for (const nav of all('nav')) if (!nav.getAttribute('aria-label')) say('no label', nav);
for (const image of all('img')) if (!image.hasAttribute('alt')) say('no alt', image);
for (const field of all('input:not([type=hidden]), select, textarea')) {
  if (!field.labels?.length && !field.getAttribute('aria-label')) say('no label', field);
}
for (const element of all('a[href], button, summary')) {
  const image = element.querySelector('img');
  const name = element.textContent.trim() || element.getAttribute('aria-label') || image?.alt;
  if (!name) say('no name', element);
}
for (const svg of all('svg[role=img]')) {
  if (!svg.getAttribute('aria-label') && !svg.querySelector(':scope > title')) say('no name', svg);
}
const ids = new Set();
for (const element of document.querySelectorAll('[id]')) {
  if (ids.has(element.id)) say(`id ${element.id} twice`, element);
  ids.add(element.id);
}
let level = 0;
for (const heading of all('h1, h2, h3, h4, h5, h6')) {
  const own = Number(heading.tagName[1]);
  if (own > level + 1 && level > 0) say(`${heading.tagName.toLowerCase()} behind h${level}`, heading);
  level = own;
}
for (const list of all('ul, ol')) {
  if ([...list.children].some((child) => child.tagName !== 'LI')) say('a list of something else', list);
}

// What scrolls can be focused, or something in it can, so that the keyboard scrolls it.
const focusable = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
for (const element of all('body *')) {
  const { overflowX, overflowY } = getComputedStyle(element);
  if (![overflowX, overflowY].some((overflow) => ['auto', 'scroll'].includes(overflow))) continue;
  const isScrolling = element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
  if (!isScrolling && !element.matches('pre, .scrolling')) continue;
  if (!element.matches(focusable) && !element.querySelector(focusable)) say('out of the keyboard\'s reach', element);
}

const parsed = (color) => {
  const numbers = color.match(/[\d.]+/g).map(Number);
  return { rgb: numbers.slice(0, 3), alpha: numbers[3] ?? 1 };
};
const over = (front, back) => front.rgb.map((value, place) => value * front.alpha + back[place] * (1 - front.alpha));
const background = (element) => {
  if (!element) return [255, 255, 255];
  const own = parsed(getComputedStyle(element).backgroundColor);
  return own.alpha === 1 ? own.rgb : over(own, background(element.parentElement));
};
const luminance = (rgb) => {
  const [red, green, blue] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const looked = new Set();
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || looked.has(element) || !isSeen(element)) continue;
  looked.add(element);
  // Text in a plot has the colour of its fill, and stands on the page.
  const style = getComputedStyle(element);
  const color = element.closest('svg') ? style.fill : style.color;
  if (color === 'none') continue;
  const back = background(element);
  const [lighter, darker] = [luminance(over(parsed(color), back)), luminance(back)].sort((a, b) => b - a);
  const contrast = (lighter + 0.05) / (darker + 0.05);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  if (contrast < (isLarge ? 3 : 4.5)) say(`contrast ${contrast.toFixed(2)}`, element);
}
return faults;
