package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:   "sagalog",
		Short: "Run tasks of several steps to an end that makes sense: done, undone, or in front of an operator",
		Long: `Sagalog runs tasks made of several steps that call remote services, and gets each to an end that makes sense: all of
it done, all of it undone, or parked in front of an operator with the reason. Nothing accepted is lost.

Start with:  sagalog dev`,
	}
	root.AddCommand(devCommand(), serveCommand(), doctorCommand(), stateCommand(), verifyCommand(), benchCommand())
	root.AddCommand(cli.Commands(cli.Deps{Load: loadDefinition, Version: version()})...)
	return cli.Execute(ctx, root, args)
}

// usage is a wrong call: exit code 2.
func usage(format string, args ...any) error { return cli.Usage(format, args...) }

// loadDefinition validates a definition without an engine. A $ref names a file at or below the definition's folder.
func loadDefinition(file string, data []byte) (cli.Definition, []cli.Fault) {
	dir := filepath.Dir(file)
	if file == "-" {
		dir = "."
	}
	src, found := scheduler.Parse(file, data, func(ref string) ([]byte, error) { return openBeside(os.DirFS(dir), ref) })
	faults := make([]cli.Fault, len(found))
	for i, f := range found {
		faults[i] = cli.Fault{File: f.File, Line: f.Line, Column: f.Column, Path: f.Path, Message: f.Message, Warning: f.Warning}
	}
	if src == nil {
		return cli.Definition{}, faults
	}
	return cli.Definition{Name: src.Workflow, Body: src.Body}, faults
}

// openBeside reads what a $ref names. A definition may come from somebody else, so it cannot name files elsewhere.
func openBeside(files fs.FS, ref string) ([]byte, error) {
	if !fs.ValidPath(ref) {
		return nil, fmt.Errorf("%q is not at or below the definition's folder", ref)
	}
	return fs.ReadFile(files, ref)
}
