package webhook

import (
	"net/http"
	"strconv"
	"time"
)

const (
	// firstPause is short, since most failures are brief.
	firstPause = time.Second
	// maxPause bounds the delay of a message after its receiver is back.
	maxPause = 5 * time.Minute
	// firstRefusedPause and maxRefusedPause are for a receiver that refuses the message itself: only a person can change that.
	firstRefusedPause = 30 * time.Second
	maxRefusedPause   = time.Hour
	// maxRetryAfter bounds the pause that a receiver may ask for.
	maxRetryAfter = time.Hour
	// GiveUpAfter is how long a message is tried.
	GiveUpAfter = 24 * time.Hour
)

// Pause returns how long to wait before sending a message again after a number of failures. a is the last answer; the zero Answer means that there
// was none. random is from 0 to 1, and spreads messages that failed at the same time.
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
