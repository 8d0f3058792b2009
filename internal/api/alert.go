package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// Alert is something that a person must look at. An open alert is derived from the state; a past one is a record of the topic of alerts.
type Alert struct {
	ID           string           `json:"id" doc:"It stays the same while the alert is open" example:"parked:order-9@mihfw0o1"`
	Kind         string           `json:"kind"`
	Task         string           `json:"task,omitempty" doc:"Of concurrency_blocked: the parked task that others wait for"`
	Workflow     string           `json:"workflow,omitempty"`
	Step         string           `json:"step,omitempty"`
	Schedule     string           `json:"schedule,omitempty"`
	Limit        string           `json:"limit,omitempty"`
	Agent        string           `json:"agent,omitempty"`
	Operation    string           `json:"operation,omitempty" doc:"Of agent_missing: what no live instance offers"`
	Since        events.Instant   `json:"since,omitzero" format:"date-time" doc:"Of an open alert: when its cause began"`
	Reason       string           `json:"reason,omitempty"`
	Time         events.Instant   `json:"time,omitzero" format:"date-time" doc:"Of a record: when the alert was raised"`
	Reminder     int              `json:"reminder,omitzero" doc:"Of a record: how often the alert was repeated"`
	Acknowledged *Acknowledgement `json:"acknowledged,omitempty" doc:"Who acknowledged it"`
	Command      string           `json:"command,omitempty" doc:"The command that shows the subject of the alert"`
}

// Acknowledgement says who takes care of an alert.
type Acknowledgement struct {
	By   string         `json:"by,omitempty"`
	At   events.Instant `json:"at" format:"date-time"`
	Note string         `json:"note,omitempty"`
}

// AlertKinds are the kinds of alerts. OpenKinds are those that can be open, because they follow from the state; the others say what happened.
var (
	OpenKinds = []string{
		supervisor.AlertParked, supervisor.AlertDeadline, supervisor.AlertSoftLimit, supervisor.AlertMissing, supervisor.AlertScheduleBlocked, supervisor.AlertBlocked,
	}
	AlertKinds = append(slices.Clone(OpenKinds),
		supervisor.AlertUndone, supervisor.AlertPermanent, supervisor.AlertEffect, supervisor.AlertScheduleMissed, supervisor.AlertScheduleFailed)
)

// maxAlertID bounds the ID of an alert: a task's ID and a step's, escaped.
const maxAlertID = 3*events.MaxTaskID + 1024

// Named gives an open alert its ID, and the command that shows its subject. The instant in the ID distinguishes the alert from others about the
// same subject. The ID of agent_missing contains none, because each node notices at another moment that the agent is missing.
func (a Alert) Named(at events.Instant) Alert {
	switch a.Kind {
	case supervisor.AlertMissing:
		a.ID = alertID(a.Kind, 0, append([]string{a.Agent}, strings.Split(a.Operation, " ")...)...)
	case supervisor.AlertScheduleBlocked:
		a.ID = alertID(a.Kind, at, a.Schedule)
	case supervisor.AlertBlocked:
		a.ID = alertID(a.Kind, at, a.Limit)
	case supervisor.AlertSoftLimit:
		a.ID = alertID(a.Kind, at, a.Task, a.Step)
	default:
		a.ID = alertID(a.Kind, at, a.Task)
	}
	a.Command = a.command()
	return a
}

func (a *Alert) command() string {
	switch {
	case a.Agent != "":
		return "sagalog agents list"
	case a.Schedule != "":
		return "sagalog schedule get " + a.Schedule
	case a.Limit != "":
		return "sagalog limit get " + shellWord(a.Limit)
	case a.Task != "":
		return "sagalog task get " + shellWord(a.Task)
	}
	return ""
}

// shellWord quotes a text for a shell, if that is necessary.
func shellWord(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@+,") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// alertID makes an ID that needs no escape in a path or a shell: KIND:SUBJECT@SINCE. A byte of the subject that is not a letter, a digit,
// a point, _ or - becomes ~ and its two hexadecimal digits. Since is in milliseconds since 1970, in base 36.
func alertID(kind string, since events.Instant, subject ...string) string {
	var b strings.Builder
	b.WriteString(kind)
	for _, part := range subject {
		if part == "" {
			continue
		}
		b.WriteByte(':')
		for i := range len(part) {
			if c := part[i]; isPlain(c) {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "~%02x", c)
			}
		}
	}
	if since != 0 {
		b.WriteString("@" + strconv.FormatInt(int64(since), 36))
	}
	return b.String()
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// AlertSubject returns the kind of an open alert, and what it is about: the first part of its subject. ok is false if there is no such ID.
func AlertSubject(id string) (kind, subject string, ok bool) {
	kind, rest, ok := strings.Cut(id, ":")
	if !ok || len(id) > maxAlertID || !slices.Contains(OpenKinds, kind) {
		return "", "", false
	}
	rest, _, _ = strings.Cut(rest, "@")
	rest, _, _ = strings.Cut(rest, ":")
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		if c == '~' {
			n, err := strconv.ParseUint(rest[min(i+1, len(rest)):min(i+3, len(rest))], 16, 8)
			if err != nil || i+2 >= len(rest) {
				return "", "", false
			}
			c, i = byte(n), i+2
		} else if !isPlain(c) {
			return "", "", false
		}
		b.WriteByte(c)
	}
	return kind, b.String(), b.Len() > 0
}

// byAge is the order of open alerts: the oldest first.
func byAge(a, b Alert) int { return cmp.Or(cmp.Compare(a.Since, b.Since), strings.Compare(a.ID, b.ID)) }
