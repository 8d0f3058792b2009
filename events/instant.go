package events

import (
	"fmt"
	"strconv"
	"time"
)

// Instant is a point in time in whole milliseconds since 1970 in UTC; zero means absent.
//
// Facts and state hold Instant and not time.Time, because a time.Time has nanoseconds and a location that its JSON
// text loses: a live fold and a replay of the same fact would then differ (INV2). In JSON it is RFC 3339 in UTC with
// milliseconds.
type Instant int64

const instantLayout = "2006-01-02T15:04:05.000Z"

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

// Add returns the instant d later; what is below a millisecond in d is dropped.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Sub returns the time from other to i.
func (i Instant) Sub(other Instant) time.Duration { return time.Duration(i-other) * time.Millisecond }

// String returns the instant as RFC 3339 in UTC with milliseconds, and "" if it is absent.
func (i Instant) String() string {
	var b [len(instantLayout)]byte
	return string(i.append(b[:0]))
}

// append appends what String returns. time.Format reads its layout each time, which takes longer than all the rest of
// a usual record's encoding.
func (i Instant) append(dst []byte) []byte {
	if i == 0 {
		return dst
	}
	if i < firstInstant || i > lastInstant { // no fact has such a time, see ParseInstant
		return i.Time().AppendFormat(dst, instantLayout)
	}
	since := int64(i - firstInstant) // not negative, so that divisions round down
	day, ms := int(since/dayMillis), int(since%dayMillis)
	year, month, day := dateOf(day)
	text := [len(instantLayout)]byte{4: '-', 7: '-', 10: 'T', 13: ':', 16: ':', 19: '.', 23: 'Z'}
	putTwo(text[0:], year/100)
	putTwo(text[2:], year%100)
	putTwo(text[5:], month)
	putTwo(text[8:], day)
	putTwo(text[11:], ms/3_600_000)
	putTwo(text[14:], ms/60_000%60)
	putTwo(text[17:], ms/1000%60)
	ms %= 1000
	text[20] = byte('0' + ms/100)
	putTwo(text[21:], ms%100)
	return append(dst, text[:]...)
}

func putTwo(dst []byte, n int) { dst[0], dst[1] = byte('0'+n/10), byte('0'+n%10) }

const (
	dayMillis = 24 * 60 * 60 * 1000
	// firstInstant and lastInstant are the ends of what the layout can say: the years 0 to 9999.
	firstInstant = Instant(-719_528 * dayMillis)
	lastInstant  = firstInstant + 3_652_425*dayMillis - 1
	// zeroTime is where the zero time.Time lies.
	zeroTime = firstInstant + 366*dayMillis
	// eraDays are the days of 400 years, behind which the calendar repeats itself.
	eraDays = 146_097
)

// dateOf returns the date of a day counted from the first of the year 0. Years are counted from March here, so that the
// leap day is the last of its year, and the lengths of the months before it follow one rule.
func dateOf(days int) (year, month, day int) {
	days += eraDays - 60 // since the first of March of the year -400
	era, days := days/eraDays, days%eraDays
	year = (days - days/1460 + days/36_524 - days/(eraDays-1)) / 365
	days -= 365*year + year/4 - year/100
	march := (5*days + 2) / 153
	day = days - (153*march+2)/5 + 1
	year += 400 * (era - 1)
	if march < 10 {
		return year, march + 3, day
	}
	return year + 1, march - 9, day
}

// daysOf is the reverse of dateOf.
func daysOf(year, month, day int) int {
	march := month - 3
	if march < 0 {
		march, year = march+12, year-1
	}
	year += 400
	return 365*year + year/4 - year/100 + year/400 + (153*march+2)/5 + day - 1 - eraDays + 60
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// parseWritten reads the text that String writes, and nothing else.
func parseWritten(b []byte) (Instant, bool) {
	if len(b) != len(instantLayout) {
		return 0, false
	}
	if b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[19] != '.' || b[23] != 'Z' {
		return 0, false
	}
	odd := false
	two := func(i int) int {
		tens, ones := b[i]-'0', b[i+1]-'0'
		odd = odd || tens > 9 || ones > 9
		return 10*int(tens) + int(ones)
	}
	year, month, day := 100*two(0)+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	last := b[22] - '0'
	ms := 10*two(20) + int(last)
	if odd || last > 9 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	ms += 1000 * (second + 60*(minute+60*hour))
	i := firstInstant + Instant(daysOf(year, month, day))*dayMillis + Instant(ms)
	if i == zeroTime {
		return 0, true // as At does
	}
	return i, true
}

// ParseInstant reads RFC 3339 with any offset and precision. It refuses what leaves the years 0 to 9999 in UTC: with
// an offset such a text can be read, but what String then writes cannot, and a fact that held it would stop its
// partition.
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
	return i.append(make([]byte, 0, len(instantLayout))), nil
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

// ParseDuration reads text such as "10m". A bare number is refused, because its unit would be a guess.
func ParseDuration(s string) (Duration, error) {
	if _, err := strconv.ParseFloat(s, 64); err == nil && s != "0" {
		return 0, fmt.Errorf("%q is a duration without a unit: write %ss or %sms", s, s, s)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
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
