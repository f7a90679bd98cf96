/* Links to copy, large pictures, marked words, and a list of the keys. */
(() => {
  'use strict';

  document.documentElement.classList.add('scripts');

  const made = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  /* Copies the complete address of a message. Browsers give the clipboard to encrypted and local pages only; on others the
     address is selected in a field. */
  const copy = async (button) => {
    const address = new URL(button.dataset.link, location.href).href;
    try {
      await navigator.clipboard.writeText(address);
    } catch {
      const field = made('input', { value: address });
      button.after(field);
      field.select();
      const isCopied = document.execCommand('copy');
      field.remove();
      if (!isCopied) return;
    }
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy link'; }, 2000);
  };

  /* Shows a picture large, with the previous and the next one of the page. */
  const lightbox = made('dialog', { id: 'lightbox', ariaLabel: 'Picture' });
  const picture = made('img');
  const original = made('a', {}, 'Original');
  const pictures = () => [...document.querySelectorAll('.picture')].filter((link) => link.checkVisibility());
  let shown = null;
  const enlarge = (link) => {
    if (!link) return;
    shown = link;
    picture.src = original.href = link.href;
    picture.alt = link.querySelector('img').alt;
    if (!lightbox.open) lightbox.showModal();
  };
  const turn = (by) => {
    const all = pictures();
    enlarge(all[(all.indexOf(shown) + by + all.length) % all.length]);
  };
  const button = (text, action) => {
    const one = made('button', { type: 'button' }, text);
    one.addEventListener('click', action);
    return one;
  };
  lightbox.append(picture, made('p', {},
    button('Previous', () => turn(-1)), button('Next', () => turn(1)), original, button('Close', () => lightbox.close())));
  lightbox.addEventListener('keydown', (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) turn(by);
    event.stopPropagation();
  });
  lightbox.addEventListener('close', () => shown?.focus());
  document.body.append(lightbox);

  document.addEventListener('click', (event) => {
    if (!(event.target instanceof Element) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const copied = event.target.closest('.copy-link');
    if (copied) copy(copied);
    const link = event.target.closest('.picture');
    if (!link) return;
    event.preventDefault();
    enlarge(link);
  });

  /* Marks the words of the search in the message to which a hit led. */
  const query = new URLSearchParams(location.search).get('q') ?? '';
  const words = query.split(/[\s"“”]+/).filter((word) => word && !word.startsWith('-') && !/^[a-z]+:\S/i.test(word));
  const plain = words.slice(0, 20).map((word) => word.replace(/\*$/, '').replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')).filter(Boolean);
  const target = document.querySelector('.target .text, :target .text');
  if (target && plain.length > 0) {
    const pattern = new RegExp(`(${plain.join('|')})`, 'iu');
    const walker = document.createTreeWalker(target, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    for (const node of nodes) {
      const parts = node.data.split(pattern);
      if (parts.length > 1) node.replaceWith(...parts.map((part, at) => (at % 2 ? made('mark', {}, part) : part)));
    }
  }

  /* The keys. */
  const keys = [
    ['/', 'search'], ['c', 'filter the channels; Enter opens the first'], ['j, k', 'next, previous message or hit'],
    ['Enter, o', 'open the hit'], ['t', 'open the thread of the message'], ['p, n', 'older, newer messages'],
    ['Escape', 'leave a field, close the pane'], ['?', 'this list'],
  ];
  const rows = keys.map(([key, action]) => made('tr', {}, made('th', { scope: 'row' }, key), made('td', {}, action)));
  const help = made('dialog', { id: 'keys', ariaLabel: 'Keys' },
    made('table', {}, made('caption', {}, 'Keys'), made('tbody', {}, ...rows)), button('Close', () => help.close()));
  help.addEventListener('keydown', (event) => event.stopPropagation());
  document.body.append(help);
  document.addEventListener('keydown', (event) => {
    if (event.key !== '?' || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof Element && event.target.matches('input, select, textarea')) return;
    help.showModal();
  });
})();
