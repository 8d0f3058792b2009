package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func namespaceCommand() *cobra.Command {
	show := output(&cobra.Command{
		Use: "show", Short: "Show the settings of the namespace", Args: cobra.NoArgs,
		Long: "Show the settings of the namespace, with their defaults, and since when and by whom they are set. All nodes decide by them.",
		RunE: client(func(s *session, _ []string) error {
			doc, err := s.get(s.cmd.Context(), "/v1/settings", nil)
			if err != nil {
				return err
			}
			return s.one(doc, func(w io.Writer) error { return showSettings(w, doc) })
		}),
	})
	set := output(&cobra.Command{
		Use: "set NAME=VALUE...", Short: "Change settings of the namespace", Args: cobra.MinimumNArgs(1),
		Long: "Change settings of the namespace for all nodes, without a restart; " + "`sagalog namespace show`" + ` lists them. Each partition adopts the
change by a fact in its log and decides by it from then on. What was decided before stays.

  submission_bytes, payload_bytes   larger submissions, inputs and outputs are refused
  task_facts, held_requests         bounds of what a task, or a partition, may pile up
  held_for                          how long a cancel or retry waits for a task that does not exist yet
  grace                             how long after its complete-by time a request may still land; undos wait for it
  remember_for                      how long a finished task is remembered. After that, its ID starts a new task. A shorter time
                                    forgets at once what ended longer ago; a longer one brings nothing back
  hash_every                        facts between two state hashes`,
		Example: "  sagalog namespace set remember_for=48h --by anna\n  sagalog namespace set payload_bytes=524288 task_facts=20000",
		RunE:    client(func(s *session, args []string) error { return s.setSettings(args) }),
	})
	set.Flags().String("by", "", "who changes them, for the record")
	return group("namespace", "Show and change the settings that all nodes share, give up lost inputs", show, set, acceptLossCommand())
}

func (s *session) setSettings(args []string) error {
	change := events.SettingsChange{Settings: map[string]json.RawMessage{}, By: s.flag("by")}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		setting, err := events.SettingOf(name)
		if !ok || err != nil {
			if err == nil {
				return Usage("%s has no value: write %s=VALUE, %s", name, name, setting.Range())
			}
			return Usage("%s", err)
		}
		if _, twice := change.Settings[name]; twice {
			return Usage("%s is given twice", name)
		}
		raw := json.RawMessage(value)
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			raw, _ = json.Marshal(value)
		}
		var checked events.Settings
		if err := setting.Set(&checked, raw); err != nil {
			return Usage("%s", err)
		}
		change.Settings[name] = raw
	}
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodPut, path: "/v1/settings", body: body, content: "application/json"})
	if err != nil {
		return err
	}
	var d api.SettingsDocument
	if err := decode(doc, &d); err != nil {
		return err
	}
	if !d.Changed {
		s.note("nothing is changed: these are the values already")
	}
	return s.one(doc, func(w io.Writer) error { return showSettings(w, doc) })
}

func showSettings(out io.Writer, doc json.RawMessage) error {
	var d api.SettingsDocument
	if err := decode(doc, &d); err != nil {
		return err
	}
	var rows []row
	for _, x := range d.Settings {
		offset := ""
		if x.Offset != nil {
			offset = strconv.FormatInt(*x.Offset, 10)
		}
		rows = append(rows, row{x.Name, plain(x.Value), plain(x.Default), instant(x.SetAt), x.By, offset, x.What})
	}
	return table(out, row{"SETTING", "VALUE", "DEFAULT", "SINCE", "BY", "OFFSET", "WHAT"}, rows)
}

// plain returns a JSON value as a person writes it.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
