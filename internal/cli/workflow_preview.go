package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func previewCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "preview NAME", Short: "Show what a task with an input would do first, without starting it", Args: cobra.ExactArgs(1),
		Long: "Show what a task with an input would do first, without starting it: faults of the input, the conditions that can be judged\n" +
			"already, and the resolved inputs of the first steps. The exit code is 1 if the input has faults.",
		Example: "  sagalog workflow preview drone-delivery --input @delivery.json\n  sagalog workflow preview drone-delivery --version 2 --input '{\"ownerId\":\"o-1\"}' -o json",
		RunE:    client(func(s *session, args []string) error { return s.preview(args[0]) }),
	})
	c.Flags().String("input", "", "the input: JSON, @FILE or - for stdin (default: null)")
	c.Flags().String("id", "", "the task's ID, for expressions that use it (default: preview)")
	c.Flags().Int("version", 0, "the version (default: the current one)")
	return c
}

func (s *session) preview(name string) error {
	if err := onlyName(name); err != nil {
		return err
	}
	body := api.PreviewBody{ID: s.flag("id")}
	var err error
	if body.Version, err = s.cmd.Flags().GetInt("version"); err != nil {
		return err
	}
	if given := s.flag("input"); given != "" {
		if body.Input, err = s.input(given); err != nil {
			return err
		}
	}
	doc, err := s.change(s.cmd.Context(), http.MethodPost, "/v1/workflows/"+url.PathEscape(name)+"/preview", body)
	if err != nil {
		return err
	}
	var p api.PreviewDocument
	if err := decode(doc, &p); err != nil {
		return err
	}
	if err := s.one(doc, func(w io.Writer) error { return showPreview(w, &p) }); err != nil {
		return err
	}
	if len(p.Faults) > 0 {
		return exit(ExitError, "the input has %s", Counted(len(p.Faults), "fault"))
	}
	return nil
}

func showPreview(out io.Writer, p *api.PreviewDocument) error {
	var rows []row
	for _, f := range p.Faults {
		rows = append(rows, row{f.Pointer, f.Message})
	}
	if len(p.Faults) > 0 {
		return table(out, row{"PLACE", "FAULT"}, rows)
	}
	if len(p.Labels) > 0 || p.Priority != 0 {
		fmt.Fprintf(out, "Labels: %s. Priority: %d.\n\n", Printable(labelText(p.Labels)), p.Priority)
	}
	if p.FairBy != "" {
		fmt.Fprintf(out, "Takes turns by the key: %s.\n\n", Printable(p.FairBy))
	}
	for _, st := range p.Steps {
		rows = append(rows, row{st.ID, workOf(&st.StepSummary), strings.Join(st.Needs, ","), first(&st), judgement(&st), string(st.With)})
	}
	return table(out, row{"STEP", "AGENT", "NEEDS", "FIRST", "CONDITION", "WITH"}, rows)
}

// first says what becomes of a step before any other step is over.
func first(st *api.PreviewStep) string {
	switch {
	case st.Error != "":
		return "fails: " + st.Error
	case st.Starts && st.Items != nil:
		return "starts " + Counted(*st.Items, "item")
	case st.Starts:
		return "starts"
	case st.Skipped:
		return "skipped"
	}
	return "waits"
}

func judgement(st *api.PreviewStep) string {
	switch {
	case st.If == "":
		return ""
	case st.Condition == nil:
		return "not known yet"
	}
	b, _ := json.Marshal(*st.Condition) // a boolean
	return string(b)
}
