package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string) int { return cli.Execute(ctx, rootCommand(), args) }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sagalog",
		Short: "A saga and workflow orchestrator on Kafka",
		Long: `Sagalog is a saga and workflow orchestrator on Kafka. It runs tasks made of several steps that call remote services, and
brings each task to a defined end: all of it is done, all of it is undone, or it is parked for an operator with the reason.
Nothing accepted is lost.

Start with:  sagalog dev`,
		Version: cli.VersionLine(version(), commit()),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(devCommand(), serveCommand(), doctorCommand(), stateCommand(), verifyCommand(), exportCommand(), replayCommand(), apiCommand(), diffCommand(), whatifCommand(), benchCommand(), generateCommand(), webhookCommand(), keyCommand())
	root.AddCommand(cli.Commands(cli.Deps{Load: loadDefinition, LoadAgents: loadAgents, Version: version(), Commit: commit(), Log: &logPlace{}, Namespace: []*cobra.Command{copyCommand(), reopenCommand(), eraseCommand()}})...)
	return root
}

// usage is a wrong call: exit code 2.
func usage(format string, args ...any) error { return cli.Usage(format, args...) }

// loadDefinition validates a definition without an engine. A $ref names a file at or below the definition's folder.
func loadDefinition(file string, data []byte) (*scheduler.Source, []scheduler.Fault) {
	dir := filepath.Dir(file)
	if file == "-" {
		dir = "."
	}
	return scheduler.Parse(file, data, func(ref string) ([]byte, error) { return openBeside(beneath(dir), ref) })
}

// beneath holds the files at or below a directory. No symbolic link leads out of it.
type beneath string

// Open implements fs.FS.
func (b beneath) Open(name string) (fs.File, error) {
	root, err := os.OpenRoot(string(b))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.FS().Open(name)
}

// Stat implements fs.StatFS: opening a named pipe would wait for its writer.
func (b beneath) Stat(name string) (fs.FileInfo, error) {
	root, err := os.OpenRoot(string(b))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Stat(name)
}

// openBeside reads the file that a $ref names. A definition may come from somebody else, so it cannot name files
// elsewhere.
func openBeside(files fs.FS, ref string) ([]byte, error) {
	if !fs.ValidPath(ref) {
		return nil, fmt.Errorf("%q is not at or below the definition's folder", ref)
	}
	return readRegular(files, ref)
}

// readRegular reads a file that is no device or pipe, and no larger than a definition may be.
func readRegular(files fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(files, name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > api.DefaultDefinitionBytes:
		return nil, fmt.Errorf("%s has %d bytes, but the limit is %d", name, info.Size(), api.DefaultDefinitionBytes)
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, api.DefaultDefinitionBytes))
}
