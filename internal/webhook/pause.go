package webhook

import (
	"net/http"
	"strconv"
	"time"
)

const (
	// firstPause is short, since most failures are brief.
	firstPause = time.Second
	// maxPause is how late a message may come after its receiver is back.
	maxPause = 5 * time.Minute
	// firstRefusedPause and maxRefusedPause are for a receiver that refuses the message itself: only a person can change that.
	firstRefusedPause = 30 * time.Second
	maxRefusedPause   = time.Hour
	// maxRetryAfter bounds what a receiver may ask to wait.
	maxRetryAfter = time.Hour
	// GiveUpAfter is how long a message is tried.
	GiveUpAfter = 24 * time.Hour
)

// Pause returns how long to wait before a message is sent again that has failed failures times, the last time with the answer a; the zero
// Answer means that there was none. random is from 0 to 1: it keeps messages apart that failed together.
func Pause(failures int, a Answer, random float64) time.Duration {
	first, most := firstPause, maxPause
	if a.Refused() {
		first, most = firstRefusedPause, maxRefusedPause
	}
	d := most
	if doublings := failures - 1; doublings < 20 { // beyond it, it is the most in any case
		d = min(most, first<<max(0, doublings))
	}
	d -= time.Duration(random * float64(d) / 4)
	return max(d, min(a.RetryAfter, maxRetryAfter))
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
