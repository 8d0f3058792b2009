package dronedelivery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Mode is a way in which a service can be broken.
type Mode string

// The modes. The package documentation describes them.
const (
	Slow   Mode = "slow"
	Fail   Mode = "fail"
	Refuse Mode = "refuse"
	Hang   Mode = "hang"
)

const (
	// delayDefault is below the workflow's complete_within of 5 s, so that a slow service is slow and not lost.
	delayDefault = 2 * time.Second
	// delayMax bounds how long a call whose caller has gone can hold memory.
	delayMax = 10 * time.Minute
)

// Fault is one way in which a service is broken. In JSON, durations are text such as "20s".
type Fault struct {
	Mode Mode `json:"mode"`
	// For is how long the fault lasts. Zero: until it is fixed or the service ends.
	For time.Duration `json:"-"`
	// Rate is the share of calls that the fault hits, above 0 and up to 1. Zero means 1.
	Rate float64 `json:"rate,omitempty"`
	// Status is the answer of fail (zero means 503) and of refuse (zero means 422).
	Status int `json:"status,omitempty"`
	// Delay is how long slow waits. Zero means 2 s.
	Delay time.Duration `json:"-"`
	// Seed changes which calls a rate below 1 chooses.
	Seed uint64 `json:"seed,omitempty"`
	// Operation is "do" or "undo" to hit only such calls. Empty means both, but for refuse it means "do": refusing an undo is a
	// defect rather than a business rule, so it must be requested explicitly.
	Operation string `json:"operation,omitempty"`
}

// plain is Fault without its methods.
type plain Fault

// wire is Fault as JSON.
type wire struct {
	plain
	For   string `json:"for,omitempty"`
	Delay string `json:"delay,omitempty"`
}

// MarshalJSON writes durations as text.
func (f Fault) MarshalJSON() ([]byte, error) {
	w := wire{plain: plain(f)}
	if f.For != 0 {
		w.For = f.For.String()
	}
	if f.Delay != 0 {
		w.Delay = f.Delay.String()
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads durations from text, and refuses members that it does not know.
func (f *Fault) UnmarshalJSON(b []byte) error {
	var w wire
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return err
	}
	var errFor, errDelay error
	*f = Fault(w.plain)
	f.For, errFor = readDuration("for", w.For)
	f.Delay, errDelay = readDuration("delay", w.Delay)
	return errors.Join(errFor, errDelay)
}

func readDuration(member, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a duration such as 500ms, 20s or 2m", member, text)
	}
	return d, nil
}

func (f Fault) validate() error {
	var faults []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	set := f.Status != 0
	switch f.Mode {
	case Slow, Hang:
		fault(set, "status is for fail and refuse, not for %s", f.Mode)
	case Fail:
		fault(set && (f.Status < 400 || f.Status > 599), "status %d of fail is not in 400..599", f.Status)
	case Refuse:
		fault(set && !permanent(f.Status), "status %d of refuse is not a permanent one: 4xx other than 408, 425 and 429", f.Status)
	default:
		fault(true, "mode %q is not slow, fail, refuse or hang", f.Mode)
	}
	fault(f.Delay != 0 && f.Mode != Slow, "delay is for slow")
	fault(f.Delay < 0 || f.Delay > delayMax, "delay %s is not in 0..%s", f.Delay, delayMax)
	fault(f.For < 0, "for %s is negative", f.For)
	fault(!(f.Rate >= 0 && f.Rate <= 1), "rate %v is not in 0..1", f.Rate)
	fault(f.Operation != "" && f.Operation != opDo && f.Operation != opUndo, "operation %q is neither do nor undo", f.Operation)
	return errors.Join(faults...)
}

// permanent says whether an agent treats this status as a permanent refusal.
func permanent(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

// filled returns the fault with its defaults in place.
func (f Fault) filled() Fault {
	f.Rate = cmp.Or(f.Rate, 1)
	switch f.Mode {
	case Slow:
		f.Delay = cmp.Or(f.Delay, delayDefault)
	case Fail:
		f.Status = cmp.Or(f.Status, http.StatusServiceUnavailable)
	case Refuse:
		f.Status, f.Operation = cmp.Or(f.Status, http.StatusUnprocessableEntity), cmp.Or(f.Operation, opDo)
	case Hang:
	}
	return f
}
