package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/scheduler"
)

// applier applies the workflows of files through a node. A file that cannot be applied ends the start: otherwise a
// missing workflow would show much later, when a task is rejected.
type applier struct {
	node *node.Node
	log  *slog.Logger
}

// folder applies all workflows of --workflows, if the flag was given.
func (a applier) folder(ctx context.Context, dir string) error {
	files, list, err := definitionsIn(dir)
	if err != nil {
		return err
	}
	for _, f := range list {
		if err := a.file(ctx, files, f); err != nil {
			return err
		}
	}
	return nil
}

// definitionsIn lists the workflows of --workflows, if the flag was given.
func definitionsIn(dir string) (files fs.FS, list []definitionFile, err error) {
	if dir == "" {
		return nil, nil, nil
	}
	if _, err := os.ReadDir(dir); err != nil {
		return nil, nil, fmt.Errorf("--workflows: %w", err)
	}
	files = beneath(dir)
	var names []string
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		found, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, nil, err
		}
		names = append(names, found...)
	}
	for _, name := range definitionsOnly(files, names) {
		list = append(list, definitionFile{name: name, place: filepath.Join(dir, name)})
	}
	return files, list, nil
}

// checkDefinitions reads all workflows of --workflows without an engine and reports every fault at once, before anything is
// created that a refusal would leave behind.
func checkDefinitions(dir string) (count int, err error) {
	files, list, err := definitionsIn(dir)
	if err != nil {
		return 0, err
	}
	var all []error
	for _, f := range list {
		source, err := readRegular(files, f.name)
		if err != nil {
			all = append(all, err)
			continue
		}
		_, faults := scheduler.Parse(f.place, source, func(ref string) ([]byte, error) { return openBeside(files, ref) })
		for _, x := range faults {
			if !x.Warning {
				all = append(all, fmt.Errorf("%s:%d:%d: %s", x.File, x.Line, x.Column, x.Message))
			}
		}
	}
	return len(list), errors.Join(all...)
}

// definitionFile is the file of a workflow: its name, and its path as the user gave it.
type definitionFile struct{ name, place string }

func (a applier) file(ctx context.Context, files fs.FS, f definitionFile) error {
	source, err := readRegular(files, f.name)
	if err != nil {
		return err
	}
	applied, faults, err := a.node.ApplyFile(ctx, f.name, source, func(ref string) ([]byte, error) { return openBeside(files, ref) })
	if err != nil {
		return fmt.Errorf("apply %s: %w", f.place, err)
	}
	for _, w := range applied.Warnings {
		a.log.Warn("workflow", "file", f.place, "line", w.Line, "column", w.Column, "warning", w.Message)
	}
	var all []error
	for _, x := range faults {
		all = append(all, fmt.Errorf("%s:%d:%d: %s", f.place, x.Line, x.Column, x.Message))
	}
	return errors.Join(all...)
}

// definitionsOnly leaves out files that are not workflows: tests, and schemas that a $ref names.
func definitionsOnly(files fs.FS, names []string) []string {
	var keep []string
	for _, name := range names {
		if cli.IsTestFile(name) {
			continue
		}
		b, err := readRegular(files, name)
		if err == nil && strings.HasSuffix(name, ".json") && !strings.Contains(string(b), "\"workflow\"") {
			continue
		}
		keep = append(keep, name)
	}
	return keep
}
