package dronedelivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Mode is a way in which a service can be broken.
type Mode string

// The modes; package documentation says what each does.
const (
	Slow   Mode = "slow"
	Fail   Mode = "fail"
	Refuse Mode = "refuse"
	Hang   Mode = "hang"
)

const (
	// delayDefault is below the workflow's complete_by of 5 s, so that a slow service is slow and not lost.
	delayDefault = 2 * time.Second
	// delayMax bounds how long a call that nobody waits for any more can hold memory.
	delayMax = 10 * time.Minute
)

// Fault is one way in which a service is broken. In JSON, durations are text such as "20s".
type Fault struct {
	Mode Mode
	// For is how long the fault lasts. Zero: until it is mended or the service ends.
	For time.Duration
	// Rate is the share of calls that are hit, above 0 and up to 1. Zero means 1.
	Rate float64
	// Status is the answer of fail (zero means 503) and of refuse (zero means 422).
	Status int
	// Delay is how long slow waits. Zero means 2 s.
	Delay time.Duration
	// Seed changes which calls a rate below 1 chooses.
	Seed uint64
	// Operation is "do" or "undo" to hit only these. Empty means both, for refuse "do": to say no to an undo is a
	// defect rather than a business rule, so it must be asked for.
	Operation string
}

// wire is Fault as JSON.
type wire struct {
	Mode      Mode    `json:"mode"`
	For       string  `json:"for,omitempty"`
	Rate      float64 `json:"rate,omitempty"`
	Status    int     `json:"status,omitempty"`
	Delay     string  `json:"delay,omitempty"`
	Seed      uint64  `json:"seed,omitempty"`
	Operation string  `json:"operation,omitempty"`
}

// MarshalJSON writes durations as text.
func (f Fault) MarshalJSON() ([]byte, error) {
	w := wire{Mode: f.Mode, Rate: f.Rate, Status: f.Status, Seed: f.Seed, Operation: f.Operation}
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
	duration, err := readDuration("for", w.For)
	if err != nil {
		return err
	}
	delay, err := readDuration("delay", w.Delay)
	if err != nil {
		return err
	}
	*f = Fault{Mode: w.Mode, For: duration, Rate: w.Rate, Status: w.Status, Delay: delay, Seed: w.Seed, Operation: w.Operation}
	return nil
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
	switch f.Mode {
	case Slow, Hang:
		if f.Status != 0 {
			faults = append(faults, fmt.Errorf("status is for fail and refuse, not for %s", f.Mode))
		}
	case Fail:
		if f.Status != 0 && (f.Status < 400 || f.Status > 599) {
			faults = append(faults, fmt.Errorf("status %d of fail is not in 400..599", f.Status))
		}
	case Refuse:
		if f.Status != 0 && !permanent(f.Status) {
			faults = append(faults, fmt.Errorf("status %d of refuse is not a permanent one: 4xx other than 408, 425 and 429", f.Status))
		}
	default:
		faults = append(faults, fmt.Errorf("mode %q is none of slow, fail, refuse, hang", f.Mode))
	}
	if f.Delay != 0 && f.Mode != Slow {
		faults = append(faults, errors.New("delay is for slow"))
	}
	if f.Delay < 0 || f.Delay > delayMax {
		faults = append(faults, fmt.Errorf("delay %s is not in 0..%s", f.Delay, delayMax))
	}
	if f.For < 0 {
		faults = append(faults, fmt.Errorf("for %s is negative", f.For))
	}
	if !(f.Rate >= 0 && f.Rate <= 1) {
		faults = append(faults, fmt.Errorf("rate %v is not in 0..1", f.Rate))
	}
	if f.Operation != "" && f.Operation != opDo && f.Operation != opUndo {
		faults = append(faults, fmt.Errorf("operation %q is neither do nor undo", f.Operation))
	}
	return errors.Join(faults...)
}

// permanent says whether an agent takes this status as "no, and never".
func permanent(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

// filled returns the fault with its defaults in place.
func (f Fault) filled() Fault {
	if f.Rate == 0 {
		f.Rate = 1
	}
	switch f.Mode {
	case Slow:
		if f.Delay == 0 {
			f.Delay = delayDefault
		}
	case Fail:
		if f.Status == 0 {
			f.Status = http.StatusServiceUnavailable
		}
	case Refuse:
		if f.Status == 0 {
			f.Status = http.StatusUnprocessableEntity
		}
		if f.Operation == "" {
			f.Operation = opDo
		}
	case Hang:
	}
	return f
}
