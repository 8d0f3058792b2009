package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

// requestUse describes the command of one kind of request.
type requestUse struct {
	kind, short, long string
	step              bool
	// named is the member that a second argument gives, "" if the task is the only one.
	named string
	// members are the further members of the request that the command has a flag for.
	members []member
	// warning is what somebody has to agree to before any task is asked, "" for nothing.
	warning string
	// ofUndo says that the warning is about undos only.
	ofUndo bool
}

const newCalls = "Steps that run once more are undone first, then done again with new idempotency keys: services will see new calls."

const leavesEffect = "Skipping the undo of a step leaves what the step did: nothing will undo it, although the task may end as undone. If you undid it by hand, record that with `sagalog task complete --operation undo` instead."

// member is a member of a request.
type member struct {
	name, use string
	// flag is the name of its flag, if that differs.
	flag string
	// value says that the flag is a JSON value, or @ and the name of a file that holds one; otherwise it is a text.
	value bool
}

var (
	memberOperation = member{name: "operation", use: "do or undo (default: undo if the task is being undone, otherwise do)"}
	memberOutput    = member{name: "output", flag: "result", use: "the output that later steps see, as JSON or @FILE (default: null)", value: true}
	memberWith      = member{name: "with", use: "the input of all further attempts, as JSON or @FILE (default: unchanged)", value: true}
	memberFrom      = member{name: "from", use: "the step from which the task runs once more (default: all steps)"}
	memberInput     = member{name: "input", use: "the task's input from then on, as JSON or @FILE (default: unchanged)", value: true}
	memberError     = member{name: "error", use: `the error, as JSON or @FILE: {"class", "code", "message"}; class is retryable, permanent, internal or limit (default: permanent, with the reason as message)`, value: true}
	memberPayload   = member{name: "payload", use: "what the step gets, as JSON, @FILE or - for stdin (default: null)", value: true}
	memberEffect    = member{name: "effect", use: "what the attempt may have done: none, done_unknown (something, but nothing is under way any more) or in_doubt (default: in_doubt)"}
)

func requestCommand(u requestUse) *cobra.Command {
	use, example := u.kind+" ID... | FILTER", " delivery-42 --reason 'the customer called'"
	if u.step && u.kind != "retry" {
		example = " delivery-42 --step drone --reason 'the customer called'"
	}
	if u.named != "" {
		use, example = u.kind+" ID NAME | NAME FILTER", ` order-42 approval --payload '{"decision": "yes"}'`
	}
	c := output(&cobra.Command{
		Use: use, Short: u.short, Long: u.long + matchingHelp, Args: u.arguments, Example: "  sagalog task " + u.kind + example + matchingExample(u),
		RunE: client(func(s *session, args []string) error {
			if s.filtered() {
				return jobCaller{s}.askMatching(u, args)
			}
			if err := s.agree(u, args); err != nil {
				return err
			}
			switch {
			case len(args) > 1 && u.named == "":
				return several{session: s}.askEach(u, args)
			}
			return s.ask(u, args)
		}),
	})
	matchingFlags(c, u)
	c.Flags().String("reason", "", "why, for the record")
	c.Flags().String("request-id", "", "the request's ID; repeating a request with the same ID changes nothing (default: a new one)")
	c.Flags().Bool("no-wait", false, "do not wait until the request is judged")
	c.Flags().Duration("wait-for", judgedWithin, "how long to wait until the request is judged, at most 1m")
	if u.step {
		use := "the step"
		if u.kind == "retry" {
			use += " (default: each step that failed)"
		}
		c.Flags().Var(new(oneStep), "step", use)
	}
	for _, m := range u.members {
		c.Flags().String(cmp.Or(m.flag, m.name), "", m.use)
	}
	waitFlags(c)
	return c
}

// judgedWithin is how long a command waits for its request: an owner judges one within milliseconds, and a take-over takes seconds.
const judgedWithin = 5 * time.Second

// asking is a request that can be sent to any task.
type asking struct {
	kind, key string
	body      []byte
	// within is how long to wait for the answer, zero for not at all.
	within time.Duration
}

// asking returns the request by the flags; name is the second argument, if the command has one.
func (s *session) asking(u requestUse, name string) (a asking, err error) {
	a = asking{kind: u.kind, key: cmp.Or(s.flag("request-id"), uuid.Must(uuid.NewV7()).String())}
	a.within, _ = s.cmd.Flags().GetDuration("wait-for")
	if s.isSet("no-wait") {
		a.within = 0
	} else if a.within <= 0 || a.within > api.MaxWait {
		return a, Usage("--wait-for must be above 0 and at most 1m")
	}
	members, err := s.requestMembers(u, name)
	if err == nil {
		a.body, err = json.Marshal(members)
	}
	return a, err
}

// agree asks whether to do what the command warns of, unless --yes is given.
func (s *session) agree(u requestUse, ids []string) error {
	if u.warning == "" {
		return nil
	}
	asks, err := concerns(s, u, ids)
	if err != nil {
		return err
	}
	if !asks && s.flag("operation") == "" { // a task that is being undone by the time of the request refuses it
		return s.cmd.Flags().Set("operation", string(events.Do))
	}
	if !asks {
		return nil
	}
	return Agree(s.cmd, u.warning, u.kind+" "+Counted(len(ids), "task")+"?")
}

// concerns says whether the warning is about what is asked of the tasks. Without --operation, each task decides whether an undo is meant: that is so
// while the task is being undone, also if it is parked meanwhile.
func concerns(s *session, u requestUse, ids []string) (bool, error) {
	if !u.ofUndo || s.isSet("yes") {
		return true, nil
	}
	if operation := s.flag("operation"); operation != "" {
		return operation == string(events.Undo), nil
	}
	for _, id := range ids {
		doc, err := s.get(s.cmd.Context(), taskPath(id), nil)
		if p, refused := errors.AsType[*Problem](err); refused && p.Status == http.StatusNotFound {
			continue // the request itself says why
		}
		if err != nil {
			return false, err
		}
		var t api.TaskDocument
		if err := decode(doc, &t); err != nil {
			return false, err
		}
		if t.State == string(events.TaskStateUndoing) || t.State == string(events.TaskStateError) && slices.ContainsFunc(t.Steps, undoBegun) {
			return true, nil
		}
	}
	return false, nil
}

func undoBegun(s api.StepDocument) bool {
	return s.Undo != nil || s.State == string(events.StepStateUndoing) || s.State == string(events.StepStateUndone) || s.State == string(events.StepStateUndoFailed)
}

// send asks a task.
func (a *asking) send(s *session, id string) (status int, doc []byte, err error) {
	ask := request{
		method: http.MethodPost, path: taskPath(id) + "/" + a.kind, body: a.body, content: "application/json",
		header: map[string]string{"Idempotency-Key": a.key}, wait: a.within,
	}
	if a.within > 0 {
		ask.query = url.Values{"wait": {a.within.String()}}
	}
	return s.do(s.cmd.Context(), ask)
}

// ask sends a request, and prints what became of it, or with --wait the task as it is afterwards.
func (s *session) ask(u requestUse, args []string) error {
	id := args[0]
	a, err := s.asking(u, strings.Join(args[1:], ""))
	if err != nil {
		return err
	}
	status, doc, err := a.send(s, id)
	if err != nil {
		return err
	}
	var r api.RequestReceipt
	if err := decode(doc, &r); err != nil {
		return err
	}
	if s.isSet("wait") {
		return s.getTask(id, r.Token)
	}
	if err := s.one(doc, func(w io.Writer) error { return showOutcome(w, &r) }); err != nil {
		return err
	}
	again := fmt.Sprintf("repeat the command with --request-id %s to ask what became of it", r.Request)
	switch {
	case status != http.StatusAccepted || a.within == 0:
		return nil
	case r.Result == "held":
		return exit(ExitStillRunning, "the request waits for its task, which has not been submitted yet; %s", again)
	}
	return exit(ExitStillRunning, "the request was not judged within %s; %s", a.within, again)
}

// requestMembers returns the members of a request, by the flags.
func (s *session) requestMembers(u requestUse, name string) (map[string]any, error) {
	body := map[string]any{}
	if u.named != "" {
		body[u.named] = name
	}
	if v := s.flag("reason"); v != "" {
		body["reason"] = v
	}
	if u.step && s.flag("step") != "" {
		body["step"] = s.flag("step")
	} else if u.step && u.kind != "retry" {
		return nil, Usage("--step is missing: name the step")
	}
	for _, m := range u.members {
		text := s.flag(cmp.Or(m.flag, m.name))
		if text == "" {
			continue
		}
		if !m.value {
			body[m.name] = text
			continue
		}
		raw, err := s.valueOf(text)
		if err != nil {
			return nil, fmt.Errorf("read --%s: %w", cmp.Or(m.flag, m.name), err)
		}
		if _, err := events.Compact(raw); err != nil { // it begins with "not JSON", "not UTF-8" or "nested"
			return nil, Usage("--%s is %v", cmp.Or(m.flag, m.name), err)
		} else if !json.Valid(raw) {
			return nil, Usage("--%s is empty", cmp.Or(m.flag, m.name))
		}
		body[m.name] = json.RawMessage(raw)
	}
	return body, nil
}

// valueOf returns the value of a flag: the text, the contents of the file behind @, or for - the standard input.
func (s *session) valueOf(text string) ([]byte, error) {
	if path, file := strings.CutPrefix(text, "@"); file {
		return os.ReadFile(path)
	}
	if text == "-" {
		return io.ReadAll(s.cmd.InOrStdin())
	}
	return []byte(text), nil
}

func showOutcome(w io.Writer, r *api.RequestReceipt) error {
	rows := []row{{"TASK", r.ID}, {"REQUEST", r.Request}, {"VERB", string(r.Verb)}, {"RESULT", cmp.Or(r.Result, "not judged yet")}}
	if r.Position != "" {
		rows = append(rows, row{"BY FACT", r.Position}, row{"STATE", r.State})
	}
	return table(w, nil, rows)
}

// oneStep is a flag that may be given once. Otherwise the last of several would be taken, and the others ignored without a word.
type oneStep string

// String implements pflag.Value.
func (s *oneStep) String() string { return string(*s) }

// Type implements pflag.Value.
func (*oneStep) Type() string { return "string" }

// Set implements pflag.Value.
func (s *oneStep) Set(text string) error {
	if *s != "" {
		return fmt.Errorf("%s was given already: a request is about one step, so make one for each", *s)
	}
	*s = oneStep(text)
	return nil
}
