package cli

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/sentence"
	"github.com/spf13/cobra"
)

// shownItems bounds the items that task get shows of a fan-out.
const shownItems = 20

// shownStates are the states of the items that task get shows: those that are open or have failed.
const shownStates = "failed,timed_out,undo_failed,undoing,running,waiting"

var itemHead = row{"ITEM", "DONE BY", "STATE", "ATTEMPT", "FAILURES", "UNDO", "ERROR"}

func itemsPath(task, step string) string {
	return taskPath(task) + "/steps/" + url.PathEscape(step) + "/items"
}

func itemsCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "items ID STEP", Short: "List the items of a step with for", Args: cobra.ExactArgs(2),
		Long: "List the items of a step with for, in order. Items that have not begun are not listed. To retry, skip, complete or fail an item, give its\n" +
			"name, such as 'send[17]', with --step.",
		Example: "  sagalog task items run-42 send --state failed\n  sagalog task items run-42 send --all -o jsonl\n  sagalog task retry run-42 --step 'send[17]'",
		RunE: client(func(s *session, args []string) error {
			q := url.Values{"limit": {s.flag("limit")}}
			for flag, parameter := range map[string]string{"state": "state", "cursor": "after"} {
				if v := s.flag(flag); v != "" {
					q.Set(parameter, v)
				}
			}
			none := "no item has begun"
			if s.flag("state") != "" || s.flag("cursor") != "" {
				none = "no item matches"
			}
			return s.pages(itemsPath(args[0], args[1]), q, "items", listing{none: none, head: itemHead, cells: rowOf(itemRow), cursor: "after"})
		}),
	})
	f := c.Flags()
	f.String("state", "", "only items in this state; separate several with commas")
	f.Int("limit", 100, "items a page, up to 1000")
	f.String("cursor", "", "continue after an earlier page")
	f.Bool("all", false, "all pages")
	suggest(c, "state", strings.Split(shownStates+",completed,skipped,undone", ",")...)
	return c
}

func itemRow(x api.ItemDocument) row { return stepRow(&x.StepDocument) }

// showItems shows how far the fan-outs of a task have come, and which of their items are open or have failed.
func showItems(s *session, w io.Writer, t *api.TaskDocument) error {
	for i := range t.Steps {
		f := t.Steps[i].FanOut
		if f == nil {
			continue
		}
		fan := sentence.ItemCounts{All: f.Count, Completed: f.Completed, Failed: f.Failed, Skipped: f.Skipped, Undone: f.Undone, Left: f.Left, Running: f.Running}
		fmt.Fprintf(w, "\n%s  %s  %s\n", t.Steps[i].ID, t.Steps[i].State, sentence.Items(fan))
		q := url.Values{"limit": {strconv.Itoa(shownItems)}, "state": {shownStates}}
		if t.At != nil {
			q.Set("at", fmt.Sprintf("%d@%d", t.At.Partition, t.At.Offset))
		}
		p, err := s.page(itemsPath(t.ID, t.Steps[i].ID), q, "items")
		if err != nil {
			return err
		}
		var rows []row
		for _, doc := range p.items {
			var x api.ItemDocument
			if err := decode(doc, &x); err != nil {
				return err
			}
			rows = append(rows, itemRow(x))
		}
		if len(rows) > 0 {
			if err := table(w, itemHead, rows); err != nil {
				return err
			}
		}
		if p.next != "" {
			fmt.Fprintf(w, "There are more: sagalog task items %s %s --state %s\n", t.ID, t.Steps[i].ID, shownStates)
		}
	}
	return nil
}
