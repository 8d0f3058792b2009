package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func namespaceCommand(d Deps) *cobra.Command {
	show := output(&cobra.Command{
		Use: "show", Short: "Show the settings and the level of the namespace", Args: cobra.NoArgs,
		Long: "Show the settings of the namespace, with their defaults, and when and by whom they were set. All nodes decide by them. Below " +
			"them are the level of the namespace and what the live nodes understand.",
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
change by a fact in its log and decides by it from then on. Earlier decisions stand.

  submission_bytes, payload_bytes   larger submissions, inputs and outputs are refused. No step of a task starts once the
                                    task takes 256 times payload_bytes in the store: it is parked then
  task_facts, held_requests         bounds on what a task, or a partition, may pile up
  held_for                          how long a cancel or retry waits for a task that does not exist yet
  grace                             how long after its complete-by time a request may still land; undos wait for it
  remember_for                      how long a finished task is remembered. After that, its ID starts a new task. A shorter time
                                    forgets at once what ended longer ago; a longer one brings nothing back
  remind_after                      how long a task stays parked before its alert is repeated, and the time between two of at most
                                    ten repeats; 0s: not at all. For a task that is parked already, the next repeat stays as it is
  keep_log                          how long facts stay in the log; 0s: forever. A task that is remembered for longer is not lost: its
                                    state is written into the log again before the log is cut
  hash_every                        facts between two state hashes`,
		Example: "  sagalog namespace set remember_for=48h --by anna\n  sagalog namespace set payload_bytes=524288 task_facts=20000",
		RunE:    client(func(s *session, args []string) error { return s.setSettings(args) }),
	})
	set.Flags().String("by", "", "who changes them, for the record")
	upgrade := output(&cobra.Command{
		Use: "upgrade", Short: "Raise the level of the namespace, after all nodes were upgraded", Args: cobra.NoArgs,
		Long: `Raise the level of the namespace, by default to the highest that every live node understands. The level says which version of the
format owners may write, and which keys definitions may use. It never falls. A node that understands less owns no partition
afterwards, so the level is not raised while such a node is alive; ` + "`sagalog namespace show`" + ` lists what the nodes understand.`,
		Example: "  sagalog namespace upgrade --by anna",
		RunE:    client(func(s *session, _ []string) error { return s.upgradeNamespace() }),
	})
	upgrade.Flags().Int("to", 0, "the level; 0: the highest that every live node understands")
	upgrade.Flags().String("by", "", "who raises it, for the record")
	all := append([]*cobra.Command{show, set, upgrade, acceptLossCommand()}, d.Namespace...)
	return group("namespace", "Show and change the settings that all nodes share, give up lost inputs, copy the namespace, erase the content of a subject", all...)
}

func (s *session) upgradeNamespace() error {
	to, err := s.cmd.Flags().GetInt("to")
	if err != nil {
		return err
	}
	if to < 0 {
		return Usage("--to %d is not a level", to)
	}
	doc, err := s.change(s.cmd.Context(), http.MethodPost, "/v1/settings/upgrade", api.UpgradeBody{To: to, By: s.flag("by")})
	if err != nil {
		return err
	}
	return s.changed(doc, "nothing is changed: the namespace already has this level")
}

// changed shows the settings after a change; if nothing changed, it prints same.
func (s *session) changed(doc json.RawMessage, same string) error {
	var d api.SettingsDocument
	if err := decode(doc, &d); err != nil {
		return err
	}
	if !d.Changed {
		s.note("%s", same)
	}
	return s.one(doc, func(w io.Writer) error { return showSettings(w, doc) })
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
	doc, err := s.change(s.cmd.Context(), http.MethodPut, "/v1/settings", change)
	if err != nil {
		return err
	}
	return s.changed(doc, "nothing is changed: the settings already have these values")
}

func showSettings(out io.Writer, doc json.RawMessage) error {
	var d api.SettingsDocument
	if err := decode(doc, &d); err != nil {
		return err
	}
	var rows []row
	for _, x := range d.Settings {
		rows = append(rows, row{x.Name, plain(x.Value), plain(x.Default), instant(x.SetAt), x.By, number(x.Offset, ""), x.What})
	}
	if err := table(out, row{"SETTING", "VALUE", "DEFAULT", "SINCE", "BY", "OFFSET", "WHAT"}, rows); err != nil {
		return err
	}
	return showLevel(out, &d)
}

// showLevel says which level the namespace has, and what its nodes understand.
func showLevel(out io.Writer, d *api.SettingsDocument) error {
	text := fmt.Sprintf("\nlevel %d", d.Level)
	if d.LevelAt != 0 {
		text += " since " + instant(d.LevelAt)
	}
	if d.LevelBy != "" {
		text += " (raised by " + d.LevelBy + ")"
	}
	text += "\n(The level says what the log may hold, so that all nodes understand it. `sagalog namespace upgrade` raises it once all nodes are upgraded.)"
	if _, err := fmt.Fprintln(out, text); err != nil {
		return err
	}
	var rows []row
	for _, n := range d.Nodes {
		rows = append(rows, row{n.Node, strconv.Itoa(n.Level)})
	}
	return table(out, row{"NODE", "UNDERSTANDS"}, rows)
}

// plain returns a JSON value as a person writes it.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
