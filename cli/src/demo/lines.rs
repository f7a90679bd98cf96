//! What the made-up workspace talks about.

/// A channel: its id, its name, and what is said in it.
pub(super) struct Channel {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) lines: &'static [&'static str],
}

/// People: id and name.
pub(super) const PEOPLE: [(&str, &str); 6] = [
    ("U0ANA", "ana"),
    ("U0BEN", "ben"),
    ("U0CHO", "cho"),
    ("U0DEV", "devi"),
    ("U0EVE", "eve"),
    ("U0FIN", "finn"),
];

/// The channels. `@ana` and its like become mentions.
pub(super) const CHANNELS: [Channel; 5] = [
    Channel {
        id: "C0GENERAL",
        name: "general",
        lines: &[
            "Good morning! The weekly meeting moves to 10:30.",
            "Reminder: the office is closed on Thursday.",
            "Who has the slides of the last review?",
            "@ben they are in the shared folder, third from the top",
            "Welcome @finn, glad you are here :wave:",
            "Thanks everyone, happy to be here!",
            "The new badge printer works. Mostly.",
            "Lunch at the corner place? 12:15",
            "I can take notes today.",
            "Notes are up, please correct what I got wrong.",
            "The survey closes tomorrow & takes five minutes.",
            "Could somebody water the plants while I'm away?",
            "Done, they look grateful.",
            "We are 40 people now, the kitchen rota needs a second page.",
            "Photos of the summer party, please don't post them elsewhere",
            "Is the car park full again?",
            "Second level still has space.",
            "The all-hands recording is ready, see the link in the calendar.",
        ],
    },
    Channel {
        id: "C0HELP",
        name: "help",
        lines: &[
            "How do I get access to the staging database?",
            "My laptop forgets the second screen after every update.",
            "@devi unplug, wait ten seconds, plug in again. Sorry that this is the answer.",
            "That worked, thank you!",
            "Where do I find last year's invoices?",
            "Printer on the 2nd floor says 'PC LOAD LETTER'",
            "It wants paper of a size nobody has. Press OK twice.",
            "Does anybody know a good way to merge two calendars?",
            "VPN drops every hour, is that only me?",
            "Not only you. A certificate expired, renewed now.",
            "Is there a template for travel costs?",
            "Pinned in this channel.",
            "The wiki search finds nothing for me",
            "It indexes at night; new pages take a day.",
        ],
    },
    Channel {
        id: "C0DESIGN",
        name: "design",
        lines: &[
            "Two variants for the empty state, opinions?",
            "B. The picture in A made me look for a button.",
            "What about the contrast of the grey text?",
            "4.6:1 now, it was 3.1:1",
            "Could we keep the old icon for search? People aim for it.",
            "Agreed, muscle memory wins.",
            "Let's test the onboarding with three people who never saw it.",
            "First test: nobody scrolls. Everything below the fold is invisible.",
            "Moved it up, second test went much better.",
            "日本語のラベルは長さが違うので、余白をもう少し。",
            "Good point, the German labels will have the same problem.",
            "Dark mode: which of the three greys is 'the' grey?",
        ],
    },
    Channel {
        id: "C0RELEASE",
        name: "release",
        lines: &[
            "Branch is cut. Only fixes from here on.",
            "The import test is flaky again: 1 of 20 runs.",
            "Found it, a race in the test itself. PR is up.",
            "Reviewed and merged, thanks @cho",
            "Changelog draft, please add what I forgot.",
            "Can we hold the release for the date fix? Two hours.",
            "Holding.",
            "Fix is in, all green.",
            "Rollout at 10%, error rate unchanged.",
            "50%, still quiet.",
            "100%. Well done everyone :tada:",
            "One report of slow exports, looking at it.",
            "Missing index. Added, exports take 300 ms again.",
        ],
    },
    Channel {
        id: "C0RANDOM",
        name: "random",
        lines: &[
            "The vending machine has new snacks and new prices.",
            "My cat attended the meeting. She had comments.",
            "Today's riddle: what has keys but opens no door?",
            "A piano!",
            "A keyboard without coffee in it, which mine is not",
            "Board games tonight? We need four.",
            "I'm in.",
            "The moon is worth a look right now.",
            "Recommendation: the bakery by the station opens at six.",
            "Confirmed, and the rolls are still warm then.",
            "Found a bike key at the entrance.",
            "Mine! Thank you!!",
        ],
    },
];

/// Replies in threads.
pub(super) const REPLIES: [&str; 14] = [
    "Yes, I had the same.",
    "Good idea.",
    "Let me check and come back to you.",
    "Works for me.",
    "I'd rather wait until Monday.",
    "Done.",
    "Who else should know?",
    "@ana could you have a look?",
    "Looking.",
    "That was it, thanks!",
    "Same here since yesterday.",
    "+1",
    "Not sure that is the reason, but it helps.",
    "Closing this one.",
];

/// Names of reactions.
pub(super) const REACTIONS: [&str; 6] = ["+1", "eyes", "tada", "heart", "white_check_mark", "thinking_face"];
