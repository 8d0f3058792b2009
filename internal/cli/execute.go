package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Execute runs the command line on a root command and returns the exit code. It gives every command of the tree the
// shared features: variables for flags, and suggestions for mistyped names.
func Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	Prepare(root)
	cmd, err := unknownCommand(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	if err == nil {
		return ExitOK
	}
	if text := describe(ctx, err); text != "" {
		fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", root.Name(), printableLines(text))
	}
	code := Code(err)
	if c, ok := errors.AsType[*codeError](err); code == ExitUsage && ok && !c.called {
		fmt.Fprintf(root.ErrOrStderr(), "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}

// unknownCommand finds a mistyped command before flags are parsed. Otherwise they would be parsed as flags of the group, and
// the error would be about a flag.
func unknownCommand(root *cobra.Command, args []string) (*cobra.Command, error) {
	if len(args) > 0 && strings.HasPrefix(args[0], "__") { // shell completion
		return root, nil
	}
	cmd, rest, err := root.Find(args)
	if err != nil || !isGroup(cmd) || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return root, nil
	}
	return cmd, unknown(cmd, rest[0])
}

func unknown(group *cobra.Command, name string) error {
	var known []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	return Usage("unknown command %q for %q; %s", name, group.CommandPath(), events.Suggest(name, known))
}

func isGroup(c *cobra.Command) bool { return c.HasAvailableSubCommands() }

const prepared = "sagalog-prepared"

const noVariable = "sagalog-no-variable"

// WithoutVariable removes the variable of a flag whose name means something else in other commands.
func WithoutVariable(flags *pflag.FlagSet, name string) {
	if err := flags.SetAnnotation(name, noVariable, []string{}); err != nil {
		panic(err) // no such flag: a defect of the caller
	}
}

const noVariableBeside = "sagalog-no-variable-beside"

// Alternatives says that a command takes one of the flags, such as two places of a log. If one of them is on the command line, the variables of the
// others do not count.
func Alternatives(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if err := flags.SetAnnotation(name, noVariableBeside, names); err != nil {
			panic(err) // no such flag: a defect of the caller
		}
	}
}

// Prepare gives a command and its subcommands the shared features. Execute calls it.
func Prepare(c *cobra.Command) {
	if c.Annotations[prepared] != "" {
		return
	}
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[prepared] = "yes"
	c.SetFlagErrorFunc(flagError)
	for _, sub := range c.Commands() {
		Prepare(sub)
	}
	for _, set := range []*pflag.FlagSet{c.LocalNonPersistentFlags(), c.PersistentFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Annotations[noVariable] == nil && !strings.Contains(f.Usage, "[$") {
				f.Usage += " [$" + Variable(f.Name) + "]"
			}
		})
	}
	switch {
	case c.Name() == "help" && c.HasParent():
		c.RunE, c.Run = help, nil
	case isGroup(c) && !c.Runnable():
		c.Args, c.RunE = cobra.ArbitraryArgs, runGroup
	case c.Args != nil:
		check := c.Args
		c.Args = func(cmd *cobra.Command, args []string) error { return wrongArguments(cmd, check(cmd, args)) }
	}
	if run := c.RunE; run != nil && !isGroup(c) {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if err := FlagsFromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return run(cmd, args)
		}
	}
}

// runGroup runs a group that was called without a command or with an unknown one.
func runGroup(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknown(cmd, args[0])
	}
	if !cmd.HasParent() {
		return cmd.Help()
	}
	cmd.SetOut(cmd.ErrOrStderr())
	cmd.Help()
	return &codeError{code: ExitUsage, err: errors.New("no command given"), quiet: true}
}

// help replaces cobra's help command, which exits 0 for an unknown topic.
func help(cmd *cobra.Command, args []string) error {
	target, rest, err := cmd.Root().Find(args)
	if err != nil {
		return Usage("%s", err)
	}
	if len(rest) > 0 {
		return unknown(target, rest[0])
	}
	target.InitDefaultHelpFlag()
	return target.Help()
}

func wrongArguments(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*codeError](err); ok {
		return err
	}
	return Usage("%s: %s; usage: %s", cmd.CommandPath(), err, cmd.UseLine())
}

// flagError names the nearest flag for an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return Usage("%s: --%s %q is not possible: %s", cmd.CommandPath(), wrong.GetFlag().Name, wrong.GetValue(), wanted(wrong.GetFlag(), err))
	}
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return Usage("%s: %s", cmd.CommandPath(), err)
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	name := missing.GetSpecifiedName()
	if missing.GetSpecifiedShortnames() != "" {
		return Usage("unknown flag -%s for %q; known flags: %s", name, cmd.CommandPath(), strings.Join(known, ", "))
	}
	return Usage("unknown flag --%s for %q; %s", name, cmd.CommandPath(), events.Suggest("--"+name, known))
}

// wanted says what a flag takes. The errors of the parsers of numbers and durations say nothing to a user.
func wanted(f *pflag.Flag, err error) string {
	switch f.Value.Type() {
	case "int", "int32", "int64":
		return "give a whole number, such as 10"
	case "uint", "uint32", "uint64":
		return "give a whole number, 0 or more"
	case "float64":
		return "give a number, such as 0.5"
	case "duration":
		return "give a duration, such as 500ms, 30s, 10m or 2h"
	case "bool":
		return "give true or false"
	}
	if cause := errors.Unwrap(err); cause != nil {
		return cause.Error()
	}
	return err.Error()
}

// Variable returns the variable that sets a flag.
func Variable(flag string) string {
	return "SAGALOG_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromVariable annotates a flag that a variable has set.
const fromVariable = "sagalog_from_variable"

// typed says whether a flag was given on the command line, and not by its variable.
func typed(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && f.Changed && f.Annotations[fromVariable] == nil
}

// FlagsFromEnvironment sets each flag that was not given on the command line and whose variable is set, unless an alternative of it was given.
func FlagsFromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Annotations[noVariable] != nil {
			return
		}
		if slices.ContainsFunc(f.Annotations[noVariableBeside], func(name string) bool { return given[name] }) {
			return
		}
		v, ok := lookup(Variable(f.Name))
		if !ok || v == "" {
			return
		}
		if err := flags.Set(f.Name, v); err != nil {
			errs = append(errs, fmt.Errorf("%s=%q is not possible: %s", Variable(f.Name), v, wanted(f, err)))
		} else {
			_ = flags.SetAnnotation(f.Name, fromVariable, []string{v}) // the flag exists
		}
	})
	if err := errors.Join(errs...); err != nil {
		return Usage("%s", err)
	}
	return nil
}
