#!/bin/sh
# Says something in a channel of a made-up workspace, as Slack would tell ingest of it: signed.
# https://docs.slack.dev/authentication/verifying-requests-from-slack
set -eu

text=$(printf '%s' "${1:?say.sh TEXT}" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')
now=$(date +%s)
# The process tells two messages of one second apart.
ts=$(printf '%s.%06d' "$now" "$$")
body=$(printf '{"type":"event_callback","team_id":"T0LOCAL","event_id":"Ev%s","event_time":%s,"event":{"type":"message","channel":"C0GENERAL","channel_type":"channel","user":"U0SOMEONE","text":"%s","ts":"%s","event_ts":"%s"}}' \
    "$now$$" "$now" "$text" "$ts" "$ts")
signature=$(printf 'v0:%s:%s' "$now" "$body" | openssl dgst -sha256 -hmac "$SLACK_SIGNING_SECRET" | sed 's/^.*= *//')

# Ingest may have been started just now.
curl --fail --silent --show-error --retry 5 --retry-delay 1 --retry-connrefused \
    --header 'Content-Type: application/json' \
    --header "X-Slack-Request-Timestamp: $now" \
    --header "X-Slack-Signature: v0=$signature" \
    --data-binary "$body" \
    http://127.0.0.1:3000/slack/events
