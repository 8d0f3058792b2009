package cli

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func acceptLossCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "accept-loss --input INPUT --partition N --from OFFSET --to OFFSET", Short: "Give up inputs that were deleted before they were judged", Args: cobra.NoArgs,
		Long: `Give up inputs that were deleted before they were judged, so that the partition that stopped because of them continues. The stop's log
line, /readyz and sagalog doctor print the command with its offsets: --from is the first record that is not judged, --to the first one
that still exists. Any other range is refused, so nothing that exists is given up. If more is deleted before the partition continues, it
stays stopped, and the new range has to be given up too.

Lost inputs stay lost: the tasks of lost submissions never begin, so submit them again. Tasks that wait for lost reports continue by their
timeouts, as if the agents had not answered. Lost requests to cancel or retry have to be made again. The log keeps the range, the reason
and who gave it up (fact InputLossAccepted), and sagalog verify names it.

Facts cannot be given up: if sagalog.events itself has lost records, restore the topic or the state directory from a copy, or begin with
a new namespace.

All nodes must run this version or a later one. An earlier version stops at the fact.`,
		Example: `  sagalog namespace accept-loss --input submissions --partition 3 --from 12 --to 40 --reason "retention was too short" --by anna`,
		RunE:    client(func(s *session, _ []string) error { return s.acceptLoss() }),
	})
	f := c.Flags()
	f.String("input", "", "submissions or reports")
	f.Int32("partition", 0, "the `number` of the partition")
	f.Int64("from", 0, "the offset of the first record that is not judged")
	f.Int64("to", 0, "the offset of the first record that still exists")
	f.String("reason", "", "why, for the record")
	f.String("by", "", "who gives it up, for the record")
	f.Bool("yes", false, "do not ask")
	suggest(c, "input", string(events.Submissions), string(events.Reports))
	return c
}

func (s *session) acceptLoss() error {
	for _, name := range []string{"input", "partition", "from", "to"} {
		if !s.cmd.Flags().Changed(name) {
			return Usage("--%s is missing; sagalog doctor prints the whole command", name)
		}
	}
	f := s.cmd.Flags()
	partition, _ := f.GetInt32("partition") // they are defined above
	from, _ := f.GetInt64("from")
	to, _ := f.GetInt64("to")
	a := events.AcceptedLoss{Input: events.Input(s.flag("input")), Partition: partition, From: from, To: to, Reason: s.flag("reason"), By: s.flag("by")}
	if !slices.Contains(events.Inputs[:], a.Input) {
		return Usage("--input is submissions or reports")
	}
	doc, err := s.get(s.cmd.Context(), "/v1/losses", nil)
	if err != nil {
		return err
	}
	var now api.LossesDocument
	if err := decode(doc, &now); err != nil {
		return err
	}
	if !api.Covers(now.Losses, &a) {
		return exit(ExitError, "%s", Printable(api.NotLost(&a, now.Losses)))
	}
	if err := s.confirm(lossSentence(&a)); err != nil {
		return err
	}
	if doc, err = s.change(s.cmd.Context(), http.MethodPost, "/v1/accepted-losses", a); err != nil {
		return err
	}
	return s.one(doc, func(w io.Writer) error {
		var d api.AcceptedLossDocument
		if err := decode(doc, &d); err != nil {
			return err
		}
		return table(w, row{"INPUT", "PARTITION", "FROM", "TO", "RECORDED AT"}, []row{{string(d.Input), strconv.Itoa(int(d.Partition)),
			strconv.FormatInt(d.From, 10), strconv.FormatInt(d.To, 10), strconv.FormatInt(d.Offset, 10)}})
	})
}

// lossSentence says what is given up.
func lossSentence(a *events.AcceptedLoss) string {
	place := fmt.Sprintf("%s partition %d", a.Input, a.Partition)
	switch {
	case a.From == a.To:
		return fmt.Sprintf("No record of %s is given up. But nothing proves any more that the topic is the one that was judged up to offset %d.", place, a.From)
	case a.Input == events.Submissions:
		return fmt.Sprintf("The %d records of %s from offset %d to %d are given up: their tasks never begin unless they are submitted again.", a.To-a.From, place, a.From, a.To-1)
	}
	return fmt.Sprintf("The %d records of %s from offset %d to %d are given up: tasks that wait for them continue by their timeouts, and requests have to be made again.", a.To-a.From, place, a.From, a.To-1)
}

// confirm asks for confirmation, unless --yes is given.
func (s *session) confirm(what string) error {
	if s.isSet("yes") {
		return nil
	}
	in, ok := s.cmd.InOrStdin().(*os.File)
	if !ok || !IsTerminal(in) {
		return Usage("%s There is nobody to ask here: add --yes", what)
	}
	fmt.Fprintf(s.cmd.ErrOrStderr(), "%s\nGive them up? Type yes: ", what)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "yes" {
		return exit(ExitError, "nothing is given up")
	}
	return nil
}
