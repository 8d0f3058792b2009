package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/scheduler"
)

// applier applies the workflows of files, and the limits beside them, through a node. A file that cannot be applied ends the start: otherwise a
// missing workflow would show much later, when a task is rejected.
type applier struct {
	node *node.Node
	log  *slog.Logger
}

// folder applies all that --workflows holds, if the flag was given: the limits first, since workflows name them.
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

// definitionsIn lists the limits and the workflows of --workflows, in this order, if the flag was given.
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
		source, err := readRegular(files, name)
		list = append(list, definitionFile{name: name, place: filepath.Join(dir, name), limit: err == nil && scheduler.IsLimit(source)})
	}
	slices.SortStableFunc(list, func(a, b definitionFile) int { return order(b) - order(a) })
	return files, list, nil
}

// checkDefinitions reads all workflows and limits of --workflows without an engine, counts the workflows, and reports every fault at once, before anything is
// created that a refusal would leave behind.
func checkDefinitions(dir string) (count int, err error) {
	files, list, err := definitionsIn(dir)
	if err != nil {
		return 0, err
	}
	var all []error
	limits := map[string]string{} // the file of each
	for _, f := range list {
		source, err := readRegular(files, f.name)
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", f.place, err))
			continue
		}
		var faults []scheduler.Fault
		if f.limit {
			var d *events.LimitDefinition
			if d, faults = scheduler.ParseLimit(f.place, "", source); d != nil && limits[d.Limit] != "" {
				all = append(all, fmt.Errorf("%s: limit %q is in %s too: keep one of them", f.place, d.Limit, limits[d.Limit]))
			} else if d != nil {
				limits[d.Limit] = f.place
			}
		} else {
			count++
			_, faults = scheduler.Parse(f.place, source, func(ref string) ([]byte, error) { return openBeside(files, ref) })
		}
		for _, x := range faults {
			if !x.Warning {
				all = append(all, errors.New(x.String()))
			}
		}
	}
	return count, errors.Join(all...)
}

// definitionFile is the file of a workflow or of a limit: its name, and its path as the user gave it.
type definitionFile struct {
	name, place string
	limit       bool
}

// order is higher for what is applied first.
func order(f definitionFile) int {
	if f.limit {
		return 1
	}
	return 0
}

func (a applier) file(ctx context.Context, files fs.FS, f definitionFile) error {
	source, err := readRegular(files, f.name)
	if err != nil {
		return err
	}
	if f.limit {
		faults, err := a.node.ApplyLimitFile(ctx, f.name, source)
		return errors.Join(applying(f, err), faultsOf(f, faults))
	}
	applied, faults, err := a.node.ApplyFile(ctx, f.name, source, func(ref string) ([]byte, error) { return openBeside(files, ref) })
	if err != nil {
		return applying(f, err)
	}
	for _, w := range applied.Warnings {
		a.log.Warn("workflow", "file", f.place, "line", w.Line, "column", w.Column, "warning", w.Message)
	}
	return faultsOf(f, faults)
}

func applying(f definitionFile, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("apply %s: %w", f.place, err)
}

func faultsOf(f definitionFile, faults []api.Fault) error {
	var all []error
	for _, x := range faults {
		where := ""
		if x.Pointer != "" {
			where = x.Pointer + ": "
		}
		all = append(all, fmt.Errorf("%s:%d:%d: %s%s", f.place, x.Line, x.Column, where, x.Message))
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
		if err == nil && strings.HasSuffix(name, ".json") && !strings.Contains(string(b), "\"workflow\"") && !scheduler.IsLimit(b) {
			continue
		}
		keep = append(keep, name)
	}
	return keep
}
