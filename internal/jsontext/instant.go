package jsontext

import "time"

// InstantLayout is the form of instants in JSON: RFC 3339 in UTC with milliseconds.
const InstantLayout = "2006-01-02T15:04:05.000Z"

// AppendMillis appends an instant, in milliseconds since 1970. time.Format parses its layout each time, which takes longer than
// the rest of encoding a usual record.
func AppendMillis(dst []byte, ms int64) []byte {
	if ms < firstInstant || ms > lastInstant {
		return time.UnixMilli(ms).UTC().AppendFormat(dst, InstantLayout)
	}
	since := ms - firstInstant // not negative, so that divisions round down
	day, ofDay := int(since/dayMillis), int(since%dayMillis)
	year, month, day := dateOf(day)
	text := [len(InstantLayout)]byte{4: '-', 7: '-', 10: 'T', 13: ':', 16: ':', 19: '.', 23: 'Z'}
	putTwo(text[0:], year/100)
	putTwo(text[2:], year%100)
	putTwo(text[5:], month)
	putTwo(text[8:], day)
	putTwo(text[11:], ofDay/3_600_000)
	putTwo(text[14:], ofDay/60_000%60)
	putTwo(text[17:], ofDay/1000%60)
	ofDay %= 1000
	text[20] = byte('0' + ofDay/100)
	putTwo(text[21:], ofDay%100)
	return append(dst, text[:]...)
}

// ParseMillis reads the text that AppendMillis writes for the years 0 to 9999, and nothing else.
func ParseMillis(b []byte) (ms int64, ok bool) {
	if len(b) != len(InstantLayout) {
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
	ofDay := 10*two(20) + int(last)
	if odd || last > 9 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	ofDay += 1000 * (second + 60*(minute+60*hour))
	return firstInstant + int64(daysOf(year, month, day))*dayMillis + int64(ofDay), true
}

func putTwo(dst []byte, n int) { dst[0], dst[1] = byte('0'+n/10), byte('0'+n%10) }

const (
	dayMillis = 24 * 60 * 60 * 1000
	// firstInstant and lastInstant are the first and the last instant that the layout can represent, in the years 0 to 9999.
	firstInstant = int64(-719_528 * dayMillis)
	lastInstant  = firstInstant + 3_652_425*dayMillis - 1
	// eraDays is the number of days in 400 years, after which the calendar repeats itself.
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
