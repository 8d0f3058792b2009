package sentence

import (
	"fmt"
	"strconv"

	"github.com/sagalog/sagalog/events"
)

func startsItems(b *events.FanOutStarted) string {
	if b.Count == 0 {
		return step(b.Step) + " has no items"
	}
	s := fmt.Sprintf("%s begins its %s", step(b.Step), items(b.Count))
	if b.Tolerate > 0 {
		s += fmt.Sprintf(", of which %s may fail", Number(b.Tolerate))
	}
	return s
}

func items(n int) string {
	if n == 1 {
		return "item"
	}
	return Number(n) + " items"
}

// ItemCounts are how many items of a fan-out there are in all, and how many are as the name says.
type ItemCounts struct{ All, Completed, Failed, Skipped, Undone, Left, Running int }

// Items says how far a fan-out has come, such as "412 of 5,000 items are done, 3 failed, 20 running".
func Items(c ItemCounts) string {
	s := fmt.Sprintf("%s of %s items are done", Number(c.Completed), Number(c.All))
	for _, part := range []struct {
		n    int
		word string
	}{{c.Failed, "failed"}, {c.Skipped, "skipped"}, {c.Undone, "undone"}, {c.Left, "left as they are"}, {c.Running, "running"}} {
		if part.n > 0 {
			s += ", " + Number(part.n) + " " + part.word
		}
	}
	return s
}

// Undone says how many items of a fan-out are undone, such as "412 of 5,000 items undone, 3 left as they are".
func Undone(c ItemCounts) string {
	s := fmt.Sprintf("%s of %s items undone", Number(c.Undone), Number(c.All))
	if c.Left > 0 {
		s += ", " + Number(c.Left) + " left as they are"
	}
	return s
}

// Number writes a number with a comma before each three digits.
func Number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && n > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
