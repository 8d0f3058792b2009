package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

// listPage is a page of a list, as it is printed.
type listPage struct {
	items   []json.RawMessage
	next    string
	missing []api.MissingPartition
}

// page reads the page of a list whose items are in the given member.
func (s *session) page(path string, q url.Values, member string) (p listPage, err error) {
	doc, err := s.get(s.cmd.Context(), path, q)
	if err != nil {
		return p, err
	}
	var of map[string]json.RawMessage
	if err := decode(doc, &of); err != nil {
		return p, err
	}
	for name, v := range map[string]any{member: &p.items, "next": &p.next, "missing": &p.missing} {
		if of[name] != nil {
			err = errors.Join(err, decode(of[name], v))
		}
	}
	return p, err
}

// patientPages bounds the pages that are read for one that is full: a page of a filter whose tasks are rare is short, or empty.
const patientPages = 50

// pageLimit is how many items a page may have.
func pageLimit(c *cobra.Command) int {
	n, _ := c.Flags().GetInt("limit")
	return n
}

// pages prints a page of a list, or with --all every page. Tables and arrays are printed when complete, lines as they arrive.
func (s *session) pages(path string, q url.Values, member string, of listing) error {
	var all []json.RawMessage
	var last listPage
	for pages, found := 1, 0; ; pages++ {
		p, err := s.page(path, q, member)
		if len(last.missing) > 0 && isUnavailable(err) {
			break // only missing partitions are left
		}
		if err != nil {
			return err
		}
		last = p
		if s.format == formatJSONL {
			if err := s.list(p.items, of); err != nil {
				return err
			}
		} else {
			all = append(all, p.items...)
		}
		found += len(p.items)
		full := found >= pageLimit(s.cmd) || pages >= patientPages || len(p.missing) > 0
		if p.next == "" || full && !s.isSet("all") {
			break
		}
		if !s.isSet("all") {
			q.Set("limit", strconv.Itoa(pageLimit(s.cmd)-found))
		}
		q.Set(cmp.Or(of.cursor, "cursor"), p.next)
	}
	if s.format != formatJSONL {
		if last.next != "" || len(last.missing) > 0 {
			of.none = "" // what is said below is all that is known
		}
		if err := s.list(all, of); err != nil {
			return err
		}
	}
	if len(last.missing) > 0 {
		return incomplete(last)
	}
	if last.next != "" {
		s.note("there are more; continue with --cursor %s, or use --all", last.next)
	}
	return nil
}

func isUnavailable(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Status == http.StatusServiceUnavailable
}

// incomplete is the error of a list that lacks partitions. A script must not take it for the whole list.
func incomplete(p listPage) error {
	var texts []string
	for _, m := range p.missing {
		text := "partition " + strconv.Itoa(int(m.Partition))
		if m.Input != "" {
			text += " of " + m.Input
		}
		text += " (" + m.Reason
		if m.Detail != "" {
			text += ": " + m.Detail
		}
		texts = append(texts, text+")")
	}
	later := "ask again later"
	if p.next != "" {
		later = "continue later with --cursor " + p.next
	}
	return exit(ExitIncomplete, "the list is incomplete: these cannot be read at the moment: %s; %s", strings.Join(texts, ", "), later)
}
