/* Convenience only: every page works without it. Only live messages and completed names of people send requests. */
(() => {
  'use strict';

  const isTyping = (element) => element instanceof HTMLElement && element.matches('input, select, textarea');

  /* Filters the channels while the user types. */
  const filter = document.getElementById('channel-filter');
  if (filter) {
    const apply = () => {
      const text = filter.value.trim().toLowerCase();
      for (const channel of document.querySelectorAll('.channel-list > li')) {
        const name = channel.querySelector('.name').textContent.toLowerCase();
        channel.hidden = !name.includes(text);
      }
    };
    filter.addEventListener('input', () => {
      /* The page has only the channels with the requested text. */
      if (filter.value === '' && filter.defaultValue !== '') filter.form.submit();
      else apply();
    });
    filter.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') {
        event.preventDefault();
        const first = document.querySelector('.channel-list > li:not([hidden]) a');
        if (first) first.click();
      }
    });
  }

  /* Completes `in:` with the channels of the menu, and `from:` with people. The browser shows those that continue what was typed. */
  const search = document.getElementById('q');
  if (search?.dataset.people) {
    const completions = document.createElement('datalist');
    completions.id = 'completions';
    search.after(completions);
    search.setAttribute('list', completions.id);
    const people = new Map();
    const peopleWith = (start) => {
      const read = async () => {
        const answer = await fetch(`${search.dataset.people}?q=${encodeURIComponent(start)}`);
        const page = new DOMParser().parseFromString(answer.ok ? await answer.text() : '', 'text/html');
        return [...page.querySelectorAll('.people a')].map((person) => person.textContent);
      };
      if (!people.has(start)) people.set(start, read().catch(() => []));
      return people.get(start);
    };
    search.addEventListener('input', async () => {
      const typed = search.value;
      const [, before, filter, sign, start] = typed.match(/^(.*?\b)(in:|from:|mentions:)([@#]?)(\S*)$/i) ?? [];
      const channels = () => [...document.querySelectorAll('.channel-list .name')].map((name) => name.textContent);
      let names = [];
      if (filter?.toLowerCase() === 'in:') names = channels();
      else if (filter && start) names = await peopleWith(start.slice(0, 2).toLowerCase());
      if (search.value !== typed) return;
      completions.replaceChildren(...names.map((name) => {
        const option = document.createElement('option');
        const hasSpace = /\s/.test(name);
        option.value = `${before}${filter}${hasSpace ? `"${name}"` : sign + name} `;
        if (hasSpace) option.label = `${before}${filter}${sign}${name}`;
        return option;
      }));
    });
  }

  /* The newest messages are at the end. */
  for (const timeline of document.querySelectorAll('.timeline.from-end')) timeline.scrollTop = timeline.scrollHeight;

  /* Scrolls an element into view without moving the start of the tab order. */
  const show = (element) => {
    const scroller = element?.closest('.timeline, .channels');
    if (!scroller) return;
    const [box, within] = [element.getBoundingClientRect(), scroller.getBoundingClientRect()];
    if (box.top >= within.top && box.bottom <= within.bottom) return;
    scroller.scrollTop += box.top - within.top - (within.height - box.height) / 2;
  };
  for (const target of document.querySelectorAll('.target')) show(target);
  show(document.querySelector('.channels [aria-current="page"]'));

  /* Who opens a thread goes on in it. */
  const beside = document.querySelector('aside .target') || document.querySelector('aside .timeline');
  beside?.focus({ preventScroll: true });

  const messages = () => {
    const pane = document.querySelector('aside') || document.querySelector('main');
    return pane ? [...pane.querySelectorAll('.message, .hit')].filter((message) => message.offsetParent) : [];
  };

  const step = (by) => {
    const all = messages();
    if (all.length === 0) return;
    const at = all.indexOf(document.activeElement && document.activeElement.closest('.message, .hit'));
    const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
    if (!all[next].hasAttribute('tabindex')) all[next].setAttribute('tabindex', '-1');
    all[next].focus();
  };

  const follow = (selector) => {
    const link = document.querySelector(selector);
    if (link) link.click();
  };

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape') {
      if (isTyping(document.activeElement)) document.activeElement.blur();
      else follow('aside .close');
      return;
    }
    if (isTyping(document.activeElement)) return;
    if ((event.key === 'Enter' || event.key === 'o') && document.activeElement.matches('.hit')) {
      document.activeElement.querySelector('.time').click();
      return;
    }
    const actions = {
      '/': () => document.getElementById('q')?.focus(),
      c: () => filter?.focus(),
      j: () => step(1),
      k: () => step(-1),
      p: () => follow('a[rel="prev"]'),
      n: () => follow('a[rel="next"]'),
      t: () => {
        const focused = document.activeElement;
        (focused?.closest('.message') || focused)?.querySelector('.thread a')?.click();
      },
    };
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
})();
