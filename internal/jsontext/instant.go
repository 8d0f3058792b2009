package jsontext

import "time"

// InstantLayout is the form of instants in JSON: RFC 3339 in UTC with milliseconds.
const InstantLayout = "2006-01-02T15:04:05.000Z"

// AppendMillis appends an instant, in milliseconds since 1970. time.Format parses its layout each time, which takes longer than
// the rest of encoding a usual record.
func AppendMillis(dst []byte, ms int64) []byte {
	at := time.UnixMilli(ms).UTC()
	year, month, day := at.Date()
	if year < 0 || year > 9999 {
		return at.AppendFormat(dst, InstantLayout)
	}
	hour, minute, second := at.Clock()
	milli := at.Nanosecond() / 1e6
	text := [len(InstantLayout)]byte{4: '-', 7: '-', 10: 'T', 13: ':', 16: ':', 19: '.', 20: byte('0' + milli/100), 23: 'Z'}
	putTwo(text[0:], year/100)
	putTwo(text[2:], year%100)
	putTwo(text[5:], int(month))
	putTwo(text[8:], day)
	putTwo(text[11:], hour)
	putTwo(text[14:], minute)
	putTwo(text[17:], second)
	putTwo(text[21:], milli%100)
	return append(dst, text[:]...)
}

func putTwo(dst []byte, n int) { dst[0], dst[1] = byte('0'+n/10), byte('0'+n%10) }

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
	milli := 10*two(20) + int(last)
	at := time.Date(year, time.Month(month), day, hour, minute, second, milli*1e6, time.UTC)
	if odd || last > 9 || month < 1 || month > 12 || at.Day() != day || hour > 23 || minute > 59 || second > 59 {
		return 0, false // time.Date moves the 31st of a shorter month to the next one
	}
	return at.UnixMilli(), true
}
