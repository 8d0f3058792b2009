package cli

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func demoCommand() *cobra.Command {
	breaks := &cobra.Command{
		Use: "break SERVICE --mode slow|fail|hang|refuse --for 20s", Short: "Make a service of the example fail", Args: cobra.ExactArgs(1),
		Example: "  sagalog demo break drone --mode fail --for 20s",
		RunE:    client(func(s *session, args []string) error { return s.breakService(args[0]) }),
	}
	breaks.Flags().String("mode", "fail", "slow, fail, hang or refuse")
	breaks.Flags().Duration("for", 20*time.Second, "how long")
	suggest(breaks, "mode", api.BreakModes...)
	fix := &cobra.Command{
		Use: "fix [SERVICE]", Short: "Fix a service of the example, or all", Args: cobra.MaximumNArgs(1),
		RunE: client(func(s *session, args []string) error {
			q, fixed := url.Values{}, "all services"
			if len(args) > 0 {
				q.Set("service", args[0])
				fixed = args[0]
			}
			if _, _, err := s.do(s.cmd.Context(), request{method: http.MethodDelete, path: "/v1/demo/break", query: q}); err != nil {
				return noDemo(err)
			}
			s.note("%s: fixed", fixed)
			return nil
		}),
	}
	return group("demo", "Break and fix the services of the example that `sagalog dev` runs", breaks, fix)
}

func (s *session) breakService(service string) error {
	if mode := s.flag("mode"); !slices.Contains(api.BreakModes, mode) {
		return Usage("--mode %q: %s", mode, events.Suggest(mode, api.BreakModes))
	}
	span, _ := s.cmd.Flags().GetDuration("for")
	how := map[string]string{"service": service, "mode": s.flag("mode"), "for": span.String()}
	if _, err := s.change(s.cmd.Context(), http.MethodPut, "/v1/demo/break", how); err != nil {
		return plainly(noDemo(err), map[string]string{"/service": strconv.Quote(service), "/mode": "--mode", "/for": "--for"})
	}
	s.note("%s: %s for %s", service, s.flag("mode"), events.Duration(span))
	return nil
}

// plainly names what the user wrote, in place of where it stands in the body. given has that by its pointer.
func plainly(err error, given map[string]string) error {
	p, ok := errors.AsType[*Problem](err)
	if !ok || len(p.Errors) == 0 {
		return err
	}
	texts := make([]string, len(p.Errors))
	for i, e := range p.Errors {
		texts[i] = cmp.Or(given[e.Pointer], e.Pointer) + " " + e.Message
	}
	return &codeError{code: Code(err), err: errors.New(strings.Join(texts, "; "))}
}

func noDemo(err error) error {
	if p, ok := errors.AsType[*Problem](err); ok && p.Status == http.StatusNotFound {
		p.Detail = "this engine runs no example; `sagalog dev` does, unless started with --demo none"
	}
	return err
}
