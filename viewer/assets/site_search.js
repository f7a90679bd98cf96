/* The search of a public site. It loads the parts of the index one after another, newest first, until there are enough hits. */
(async () => {
  'use strict';
  const ENOUGH = 20;
  const WORDS_BEFORE = 8;
  const WORDS_SHOWN = 40;

  const [status, list, more] = ['search-status', 'search-hits', 'search-more'].map((id) => document.getElementById(id));
  const parameters = new URLSearchParams(location.search);
  const query = (parameters.get('q') || '').trim();
  const folder = parameters.get('in');
  const field = document.getElementById('q');
  if (field) field.value = query;
  if (query === '') {
    status.textContent = 'Enter the words that you look for.';
    field?.focus();
    return;
  }

  const here = (path) => new URL(path, document.baseURI).href;
  const element = (name, className, ...children) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...children);
    return made;
  };
  const channelNames = new Map();
  for (const link of document.querySelectorAll('.channel-list a')) {
    const name = link.querySelector('.name');
    if (name) channelNames.set(decodeURIComponent(link.href.split('/').at(-2)), name.textContent);
  }

  /* The messages of a page that have a match, those with the most of the words first. */
  const messagesOf = (page) => {
    const isSeparated = page.raw_content.includes('\u200b');
    const words = isSeparated ? page.raw_content.split('\u200b') : page.raw_content.split(/\s+/);
    const starts = page.anchors
      .filter(({ element, id }) => element === 'article' && /^[mt]\d+\.\d+$/.test(id))
      .sort((one, other) => one.location - other.location);
    const found = new Map();
    for (const location of page.locations) {
      const at = starts.findLastIndex((start) => start.location <= location);
      if (at < 0) continue;
      if (!found.has(at)) found.set(at, []);
      found.get(at).push(location);
    }
    const messages = [...found].map(([at, locations]) => {
      const distinct = new Set(locations.map((location) => (words[location] || '').toLowerCase()));
      const end = at + 1 < starts.length ? starts[at + 1].location : words.length;
      return { id: starts[at].id, start: starts[at].location, end, locations, words, isSeparated, matches: distinct.size };
    });
    return messages.sort((one, other) => other.matches - one.matches || other.start - one.start);
  };

  /* `<` and `>` are all that is escaped in it, and it becomes text again. */
  const plain = (word) => word.replaceAll('&lt;', '<').replaceAll('&gt;', '>');

  const hitOf = (page, message) => {
    const [, , name, ...rest] = page.raw_url.split('/');
    const ts = message.id.slice(1);
    const address = `../c/${[name, ...rest].map(encodeURIComponent).join('/')}#${message.id}`;
    const first = Math.max(message.start, Math.min(...message.locations) - WORDS_BEFORE);
    const text = element('p', 'text');
    text.dir = 'auto';
    const space = message.isSeparated ? '' : ' ';
    for (let at = first; at < Math.min(message.end, first + WORDS_SHOWN); at += 1) {
      const word = plain(message.words[at]);
      text.append(message.locations.includes(at) ? element('mark', '', word) : word, space);
    }
    if (first + WORDS_SHOWN < message.end) text.append('…');
    const place = element('a', 'place', element('bdi', '', `#${channelNames.get(name) || name}`));
    place.href = `../c/${encodeURIComponent(name)}/index.html`;
    const time = element('time', '', new Date(Number(ts) * 1000).toISOString().slice(0, 10));
    time.dateTime = time.textContent;
    const link = element('a', 'time', time);
    link.href = address;
    return element('li', '', element('article', 'hit', element('p', 'head', place, ' ', link), text));
  };

  async function* hits() {
    const known = new Set();
    const parts = await (await fetch(here('parts.json'))).json();
    for (const part of parts) {
      const pagefind = await import(here(`${part}/pagefind.js`));
      const { results } = await pagefind.search(query);
      for (const result of results) {
        const page = await result.data();
        const name = page.raw_url.split('/')[2];
        if (folder && name !== folder) continue;
        for (const message of messagesOf(page)) {
          /* The first message of a thread is on two pages. */
          const key = `${name} ${message.id.slice(1)}`;
          if (known.has(key)) continue;
          known.add(key);
          yield hitOf(page, message);
        }
      }
    }
  }

  const found = hits();
  const show = async () => {
    more.hidden = true;
    status.textContent = 'Searching …';
    for (let count = 0; count < ENOUGH; count += 1) {
      const { value, done } = await found.next();
      if (done) {
        const count = list.childElementCount;
        status.textContent = count === 0 ? 'Nothing was found.' : `${count} ${count === 1 ? 'message' : 'messages'}`;
        return;
      }
      list.append(value);
    }
    status.textContent = `The first ${list.childElementCount} messages`;
    more.hidden = false;
  };
  const guarded = () =>
    show().catch(() => {
      status.textContent = 'The search could not be loaded: try again later.';
    });
  more.addEventListener('click', guarded);
  await guarded();
})();
