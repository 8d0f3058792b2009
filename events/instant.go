package events

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// Instant is a point in time in whole milliseconds since 1970 in UTC; zero means absent.
//
// Facts and state hold Instant and not time.Time, because a time.Time has nanoseconds and a location that its JSON
// text loses: a live fold and a replay of the same fact would then differ (INV2). In JSON it is RFC 3339 in UTC with
// milliseconds.
type Instant int64

// At truncates t to milliseconds. The zero time is the absent Instant.
func At(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixMilli())
}

// Time returns the instant as a time in UTC, and the zero time for an absent one.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(i)).UTC()
}

// Add returns the instant d later; d is truncated to milliseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Sub returns the time from other to i.
func (i Instant) Sub(other Instant) time.Duration { return time.Duration(i-other) * time.Millisecond }

// String returns the instant as RFC 3339 in UTC with milliseconds, and "" if it is absent.
func (i Instant) String() string {
	var b [len(jsontext.InstantLayout)]byte
	return string(i.append(b[:0]))
}

// append appends the text that String returns.
func (i Instant) append(dst []byte) []byte {
	if i == 0 {
		return dst
	}
	return jsontext.AppendMillis(dst, int64(i))
}

// parseWritten reads the text that String writes, and nothing else.
func parseWritten(b []byte) (Instant, bool) {
	ms, ok := jsontext.ParseMillis(b)
	if ms == zeroTime {
		ms = 0 // as At does
	}
	return Instant(ms), ok
}

// zeroTime is the zero time.Time as an Instant, and lastInstant the latest that has a text.
const (
	zeroTime    = -62_135_596_800_000
	lastInstant = 253_402_300_799_999
)

// ParseInstant reads RFC 3339 with any offset and precision. It refuses instants outside the years 0 to 9999 in UTC: a text with
// an offset may name such an instant, but the text that String writes for it could not be read back, and a fact with it would
// stop its partition.
func ParseInstant(s string) (Instant, error) {
	if i, ok := parseWritten([]byte(s)); ok {
		return i, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, fmt.Errorf("%q is not an instant such as 2026-11-21T14:00:00Z", s)
	}
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return 0, fmt.Errorf("%q lies outside the years 0 to 9999 in UTC", s)
	}
	return At(t), nil
}

// MarshalText writes RFC 3339.
func (i Instant) MarshalText() ([]byte, error) {
	return i.append(make([]byte, 0, len(jsontext.InstantLayout))), nil
}

// UnmarshalText reads RFC 3339; empty text is the absent Instant.
func (i *Instant) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*i = 0
		return nil
	}
	v, ok := parseWritten(b)
	if !ok {
		var err error
		if v, err = ParseInstant(string(b)); err != nil {
			return err
		}
	}
	*i = v
	return nil
}

// Duration is a time.Duration that is text such as "10m" or "1m30s" in JSON and YAML.
type Duration time.Duration

// Std returns the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the shortest text that ParseDuration reads back: "10m", not "10m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if n := len(s); n > 2 && s[n-2:] == "0s" && s[n-3] == 'm' {
		s = s[:n-2]
	}
	if n := len(s); n > 2 && s[n-2:] == "0m" && s[n-3] == 'h' {
		s = s[:n-2]
	}
	return s
}

// writtenDuration matches what time.ParseDuration reads, however large.
var writtenDuration = regexp.MustCompile(`^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// ParseDuration reads text such as "10m". A bare number is refused, because its unit would be a guess.
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return 0, fmt.Errorf("%q is a duration without a unit: write %ss or %sms", s, s, s)
		}
		if writtenDuration.MatchString(s) {
			return 0, fmt.Errorf("%q is longer than the longest duration, which is 2562047h", s)
		}
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 30s, 10m or 2h", s)
	}
	return Duration(d), nil
}

// MarshalText writes the duration as text.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the duration from text.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = v
	return nil
}
