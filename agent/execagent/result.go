package execagent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
)

// result is a command that is over.
type result struct {
	command *command
	undo    bool
	stdout  *capture
	stderr  *tail
	secrets *agentfile.Secrets
	ending  ending
	reason  reason
	killed  bool
	took    time.Duration
}

// notStarted is the failure of a command that does not run because the system refused to start it.
func (r *result) notStarted(err error) *agent.Failure {
	f := &agent.Failure{
		Class: events.ClassRetryable, Effect: events.EffectNone, Code: "start", Err: fmt.Errorf("%s was not started: %w", r.command.program, err),
	}
	if hopeless(err) {
		f.Class = events.ClassPermanent
	}
	return f
}

// outcome turns the ending into an output or a failure.
func (r *result) outcome() (json.RawMessage, *agent.Failure) {
	e := r.ending
	switch {
	case e.failed != nil:
		return nil, r.notStarted(e.failed)
	case r.reason == outputEndless || r.stdout.over && r.reason == byItself:
		return nil, r.failure(events.ClassPermanent, "output_limit", fmt.Sprintf("output is over the limit: %s wrote more than %d bytes%s", r.command.program, r.stdout.limit, r.how()))
	case r.reason == timeUp:
		return nil, r.failure(events.ClassRetryable, "timeout", fmt.Sprintf("%s was not over after %v%s", r.command.program, r.took.Round(time.Millisecond), r.how()))
	case r.reason == attemptStopped:
		return nil, r.failure(events.ClassRetryable, "stopped", fmt.Sprintf("%s was no longer needed%s", r.command.program, r.how()))
	case e.lost:
		return nil, r.failure(events.ClassRetryable, "lost", fmt.Sprintf("nobody knows how %s ended, because the process that watched over it was killed", r.command.program))
	case e.signal > 0:
		return nil, r.failure(events.ClassRetryable, "signal", fmt.Sprintf("%s was ended by signal %d (%v)", r.command.program, int(e.signal), e.signal))
	case !r.command.codes.succeeds(e.code):
		return nil, r.failure(r.command.codes.class(e.code), fmt.Sprintf("exit_%d", e.code), fmt.Sprintf("%s exited with %d", r.command.program, e.code))
	case r.undo:
		return nil, nil // nothing reads the output of an undo
	}
	out, err := decode(r.command.stdout, r.stdout.bytes)
	if err != nil {
		return nil, r.failure(events.ClassPermanent, "bad_output", fmt.Sprintf("%s exited with %d, but %v", r.command.program, e.code, err))
	}
	return out, nil
}

// how says how a command was ended.
func (r *result) how() string {
	switch {
	case r.reason == byItself:
		return ""
	case r.killed:
		return ", did not end when it was asked to (SIGTERM), and was killed"
	default:
		return ", and was ended (SIGTERM)"
	}
}

// wordsLimit bounds the part of standard error that a message quotes.
const wordsLimit = 200

// failure is a failure of a command that was started. It carries the end of what the command wrote to standard error.
func (r *result) failure(class events.Class, code, text string) *agent.Failure {
	f := &agent.Failure{Class: class, Effect: doneUnknown, Code: code}
	if r.reason != byItself || r.ending.lost || r.ending.signal > 0 {
		f.Effect = inDoubt
	}
	detail := struct {
		ExitCode *int   `json:"exit_code,omitempty"`
		Signal   int    `json:"signal,omitempty"`
		Stderr   string `json:"stderr,omitempty"`
	}{Signal: int(r.ending.signal), Stderr: r.words()}
	if !r.ending.lost && r.ending.signal == 0 {
		detail.ExitCode = &r.ending.code
	}
	f.Detail = mustMarshal(detail)
	if line := lastLine(detail.Stderr); line != "" {
		text += ": " + events.Clip(line, wordsLimit)
	}
	f.Err = errors.New(text)
	return f
}

// words returns the end of what the command wrote to standard error, without secrets. They are replaced before the cut, which could
// leave a part of one that nothing recognizes.
func (r *result) words() string {
	text, whole := r.stderr.text()
	if !whole {
		text = r.secrets.WithoutRest(text)
	}
	text = strings.ToValidUTF8(r.secrets.Text(text), "\uFFFD")
	if len(text) > stderrLimit {
		text = strings.ToValidUTF8(text[len(text)-stderrLimit:], "")
	}
	return strings.TrimSpace(text)
}

func lastLine(text string) string {
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// decode reads standard output in the format that a binding gives.
func decode(format string, out []byte) (json.RawMessage, error) {
	switch format {
	case formatJSON:
		out = bytes.TrimSpace(out)
		switch {
		case len(out) == 0:
			return json.RawMessage("null"), nil
		case !utf8.Valid(out) || !json.Valid(out):
			return nil, errors.New("wrote something else than one JSON value: write messages to standard error, or set stdout to text or lines")
		}
		return events.Compact(out)
	case formatLines:
		if !utf8.Valid(out) {
			return nil, errNotText
		}
		lines := []string{}
		for line := range strings.Lines(string(out)) {
			lines = append(lines, withoutNewline(line))
		}
		return events.Marshal(lines)
	}
	if !utf8.Valid(out) {
		return nil, errNotText
	}
	return events.Marshal(withoutNewline(string(out)))
}

var errNotText = errors.New("wrote bytes that are not UTF-8 text")

func withoutNewline(line string) string {
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
}
