package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

// mostLetters bounds the dead letters that a command redrives or dismisses by their reason: it keeps their IDs.
const mostLetters = 10_000

func redriveCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "redrive [ID...]", Short: "Send rejected inputs again, once their cause is fixed", Args: lettersChosen,
		Long: "Send rejected inputs again: the original bytes, as new records. A submission that would be rejected again is not sent;\n" +
			"its problem is printed instead. Each one that is sent is marked as redriven.\n\n" + chosenHelp,
		Example: "  sagalog dlq redrive submissions-3-17\n  sagalog dlq redrive --rejected-for unknown_workflow --reason 'the workflow is applied now'",
		RunE:    letterClient(func(s letterCaller, args []string) error { return s.redrive(args) }),
	})
	chosenFlags(c)
	return c
}

func dismissCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "dismiss [ID...]", Short: "Mark rejected inputs as needing no further action", Args: lettersChosen,
		Long: "Record that rejected inputs need no further action. They stay in their topic for as long as it keeps them, and can still be redriven.\n\n" + chosenHelp,
		Example: "  sagalog dlq dismiss submissions-3-17 --reason 'a test of the sender'\n  sagalog dlq dismiss --sent-again --reason 'the sender is corrected'\n" +
			"  sagalog dlq dismiss --rejected-for unreadable --yes",
		RunE: letterClient(func(s letterCaller, args []string) error { return s.dismiss(args) }),
	})
	chosenFlags(c)
	c.Flags().Bool(sentAgain, false, "only submissions after which a task with the same ID was accepted, because it was sent again")
	WithoutVariable(c.Flags(), sentAgain)
	return c
}

func reopenCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "reopen ID...", Short: "Remove the marks of rejected inputs", Args: cobra.MinimumNArgs(1),
		Long:    "Remove the marks of rejected inputs that are redriven or dismissed: `dlq list --open` shows them again. Inputs that were sent again are not recalled.",
		Example: "  sagalog dlq reopen submissions-3-17 --reason 'dismissed by mistake'",
		RunE:    letterClient(func(s letterCaller, args []string) error { return s.ofLetters("reopen", args, letterRows) }),
	})
	markFlags(c)
	return c
}

// sentAgain is a flag of dismiss.
const sentAgain = "sent-again"

// markFlags are what is recorded with a mark.
func markFlags(c *cobra.Command) {
	c.Flags().String("reason", "", "why, for the record")
	c.Flags().String("by", "", "who does it, for the record")
}

const chosenHelp = "With a flag such as --rejected-for or --all instead of IDs, the command takes the open ones, which are neither redriven nor dismissed: it counts them, shows up to ten, and\n" +
	"asks you first unless you give --yes. If you interrupt it, the remaining ones stay as they were."

func chosenFlags(c *cobra.Command) {
	letterFlags(c)
	markFlags(c)
	c.Flags().Bool("all", false, "all open ones: neither redriven nor dismissed")
	c.Flags().BoolP("yes", "y", false, "do not ask")
	WithoutVariable(c.Flags(), "all")
}

// lettersChosen says whether IDs and flags fit together.
func lettersChosen(c *cobra.Command, args []string) error {
	reason, _ := c.Flags().GetString("rejected-for")
	all, _ := c.Flags().GetBool("all")
	again, _ := c.Flags().GetBool(sentAgain)
	switch byFlag := reason != "" || all || again; {
	case reason == "" && c.Flags().Changed("rejected-for"):
		return errors.New("--rejected-for is empty: give a reason such as unknown_workflow; --all takes every open one")
	case all && (reason != "" || again):
		return errors.New("--all takes every open one, so it cannot be combined with flags that choose some: give one of them")
	case byFlag && len(args) > 0:
		return errors.New("give IDs or a filter, not both: flags such as --rejected-for and --all choose dead letters without IDs")
	case !byFlag && len(args) == 0:
		return errors.New("give the IDs of dead letters, or --rejected-for REASON; --all takes every open one")
	}
	return nil
}

// chosen returns the IDs of the dead letters that the command is about. A person is asked about those that flags chose.
func (s letterCaller) chosen(verb string, ids []string) ([]string, error) {
	if len(ids) > 0 {
		return ids, nil
	}
	yes := s.isSet("yes")
	if !yes && !isTerminal(s.cmd.InOrStdin()) {
		return nil, Usage("there is no terminal to ask you whether to %s them all: give --yes; `sagalog dlq list --open` shows them", verb)
	}
	q := s.letterQuery()
	q.Set("open", "true")
	q.Set("limit", "1000")
	var examples []json.RawMessage
	for {
		p, err := s.page(deadLettersPath, q, "dead_letters")
		switch {
		case err != nil:
			return nil, err
		case len(p.missing) > 0:
			return nil, incomplete(p)
		}
		for _, doc := range p.items {
			var d api.DeadLetterDocument
			if err := decode(doc, &d); err != nil {
				return nil, err
			}
			if again, err := s.wasSentAgain(&d); err != nil {
				return nil, err
			} else if !again {
				continue
			}
			if len(ids) < 10 {
				examples = append(examples, doc)
			}
			ids = append(ids, d.ID)
		}
		if p.next == "" {
			break
		}
		if len(ids) >= mostLetters {
			ids = ids[:mostLetters]
			s.note("these are the newest %d; repeat the command for the others", mostLetters)
			break
		}
		q.Set("cursor", p.next)
	}
	if len(ids) == 0 {
		s.note("no open dead letter matches")
		return nil, nil
	}
	rows := make([]row, len(examples))
	for i, doc := range examples {
		var d api.DeadLetterDocument
		if err := decode(doc, &d); err != nil {
			return nil, err
		}
		rows[i] = row{d.ID, instant(d.Time), d.Reason, d.Key, d.Detail}
	}
	if err := table(s.err, row{"EXAMPLE", "TIME", "REASON", "KEY", "DETAIL"}, rows); err != nil {
		return nil, err
	}
	if more := len(ids) - len(rows); more > 0 {
		fmt.Fprintf(s.err, "and %d more\n", more)
	}
	if !yes && !agreed(s.cmd.InOrStdin(), s.err, fmt.Sprintf("%s %s?", verb, Counted(len(ids), "dead letter"))) {
		return nil, exit(ExitError, "nothing was done")
	}
	return ids, nil
}

// wasSentAgain says whether a task with the ID of a rejected submission was accepted after it; without --sent-again it does not matter.
func (s letterCaller) wasSentAgain(d *api.DeadLetterDocument) (bool, error) {
	if asked, _ := s.cmd.Flags().GetBool(sentAgain); !asked { // redrive has no such flag
		return true, nil
	}
	kind := d.Headers[events.HeaderType] // cancels and signals come in the same topic; without the header, the type may be in the value
	submits := kind == events.TypeSubmission || kind == "" && !strings.HasPrefix(d.Headers["content-type"], "application/cloudevents")
	if !submits || !strings.HasPrefix(d.ID, string(events.Submissions)+"-") || events.CheckTaskID(d.Key) != nil {
		return false, nil
	}
	doc, err := s.get(s.cmd.Context(), taskPath(d.Key), nil)
	if p, ok := errors.AsType[*Problem](err); ok && p.Status == http.StatusNotFound {
		return false, nil
	}
	var t api.TaskDocument
	if err == nil {
		err = decode(doc, &t)
	}
	return t.SubmittedAt > d.Time, err
}

// ofLetters makes a request about each dead letter and prints what the answers say. A letter that is refused does not stop the others; an engine that does
// not answer, or that does not let the caller do it, does.
func (s letterCaller) ofLetters(verb string, args []string, l listing) error {
	body := map[string]any{}
	for _, name := range []string{"reason", "by"} {
		if v := s.flag(name); v != "" {
			body[name] = v
		}
	}
	ids, err := s.chosen(verb, args)
	if err != nil {
		return err
	}
	bar := newCount(s.err, "dead letters")
	defer bar.abort()
	var docs []json.RawMessage
	var failed []error
	var refused letterFaults
	for i, id := range ids {
		doc, err := s.change(s.cmd.Context(), http.MethodPost, deadPath(id)+"/"+verb, body)
		if err != nil && s.cmd.Context().Err() == nil {
			refused.add(id, ofData(err))
		}
		if err == nil {
			docs = append(docs, doc)
		} else if !aboutLetter(err) {
			if left := len(ids) - i - 1; left > 0 {
				s.note("stopped: %s not tried", Counted(left, "dead letter"))
			}
			failed = append(failed, s.cmd.Context().Err())
			break
		}
		bar.set(i+1, len(ids))
	}
	bar.done()
	if faults := refused.errors(); len(faults) > 0 {
		failed = append(faults, failed...)
		if len(ids) > 1 {
			s.note("%d of %s %s", len(docs), Counted(len(ids), "dead letter"), map[string]string{"redrive": "sent again", "dismiss": "dismissed", "reopen": "opened"}[verb])
		}
	}
	if len(docs) > 0 || s.format != formatTable {
		failed = append(failed, s.list(docs, l))
	}
	return errors.Join(failed...)
}

// letterFaults are the errors of a command about many dead letters, which often have the same one.
type letterFaults struct {
	list  []letterFault
	known map[string]int // the place in the list by the text of the error
}

type letterFault struct {
	err error
	ids []string
}

func (f *letterFaults) add(id string, err error) {
	i, ok := f.known[err.Error()]
	if !ok {
		if f.known == nil {
			f.known = make(map[string]int)
		}
		i = len(f.list)
		f.known[err.Error()] = i
		f.list = append(f.list, letterFault{err: err})
	}
	f.list[i].ids = append(f.list[i].ids, id)
}

// errors returns each error once, after the letters that have it.
func (f *letterFaults) errors() (list []error) {
	for _, x := range f.list {
		names := strings.Join(x.ids[:min(3, len(x.ids))], ", ")
		if more := len(x.ids) - 3; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		list = append(list, fmt.Errorf("%s: %w", names, x.err))
	}
	return list
}

// aboutLetter says whether an error concerns one dead letter, and not the engine or the caller.
func aboutLetter(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Status < http.StatusInternalServerError && p.Status != http.StatusUnauthorized && p.Status != http.StatusForbidden
}

func (s letterCaller) redrive(ids []string) error {
	return s.ofLetters("redrive", ids, listing{head: row{"ID", "TASK", "PARTITION", "OFFSET"}, cells: rowOf(func(r api.Receipt) row {
		return row{r.Letter, r.ID, strconv.Itoa(int(r.Partition)), number(r.Offset, "known")}
	})})
}

var letterRows = listing{head: row{"ID", "REASON", "KEY", "MARK"}, cells: rowOf(func(d api.DeadLetterDocument) row {
	return row{d.ID, d.Reason, d.Key, markText(d.Mark)}
})}

func (s letterCaller) dismiss(ids []string) error { return s.ofLetters("dismiss", ids, letterRows) }
