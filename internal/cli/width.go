package cli

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// emojiStyle is the variation selector that makes the character before it an emoji, two cells wide.
const emojiStyle = '\uFE0F'

// columns returns how many cells of a terminal a text takes: two for a wide character (CJK, most emoji), none for one that
// joins the character before it. A sequence that a terminal may draw as one picture (a family, a flag) counts each of its
// parts, since terminals differ about these.
func columns(s string) int {
	n, last := 0, 0
	for _, r := range s {
		if r == emojiStyle && last == 1 {
			n, last = n+1, 2
			continue
		}
		w := runeColumns(r)
		if n += w; w > 0 {
			last = w
		}
	}
	return n
}

func runeColumns(r rune) int {
	if r < 0x80 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// padded fills a text with spaces to a number of cells.
func padded(s string, to int) string {
	return s + strings.Repeat(" ", max(0, to-columns(s)))
}
