/* Shows messages that come while a channel is open. Without it, the page stays as it was loaded. */
(() => {
  'use strict';

  const timeline = document.querySelector('.timeline[data-live]');
  if (!timeline) return;
  const inner = timeline.querySelector('.timeline-inner');
  const source = new EventSource(timeline.dataset.live);

  const isAtEnd = () => timeline.scrollHeight - timeline.scrollTop - timeline.clientHeight < 100;
  const scrollToEnd = () => { timeline.scrollTop = timeline.scrollHeight; };

  /* How many messages came below what is in sight. */
  let unseen = 0;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'new-messages';
  button.hidden = true;
  timeline.append(button);
  const showUnseen = (count) => {
    unseen = count;
    button.hidden = count === 0;
    button.textContent = count === 1 ? '1 new message' : `${count} new messages`;
  };
  button.addEventListener('click', () => {
    scrollToEnd();
    showUnseen(0);
  });
  timeline.addEventListener('scroll', () => { if (unseen > 0 && isAtEnd()) showUnseen(0); });

  source.addEventListener('message', (event) => {
    const template = document.createElement('template');
    template.innerHTML = event.data;
    const article = template.content.querySelector('article');
    if (!article) return;
    const known = document.getElementById(article.id);
    const wasAtEnd = isAtEnd();
    if (known) {
      const hadFocus = known === document.activeElement;
      known.replaceWith(article);
      if (hadFocus) article.focus({ preventScroll: true });
    } else {
      const isLater = (other) => other.dataset.ts > article.dataset.ts;
      const later = [...inner.querySelectorAll('article[data-ts]')].find(isLater);
      const days = inner.querySelectorAll('section.day');
      if (later) later.before(article);
      else if (template.content.querySelector('section.day') || days.length === 0) {
        document.getElementById('newest').before(template.content);
      } else days[days.length - 1].append(template.content);
      if (!wasAtEnd) showUnseen(unseen + 1);
    }
    if (wasAtEnd) scrollToEnd();
  });

  /* More came than is sent one by one: the page has to be loaded again. */
  source.addEventListener('gap', () => {
    source.close();
    button.textContent = 'Many new messages: load the page again';
    button.hidden = false;
    button.addEventListener('click', () => location.reload());
  });
  source.addEventListener('end', () => source.close());
})();
