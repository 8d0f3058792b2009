package cli_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// terminal returns both ends of a pseudo-terminal: what is written to the first is typed at the second.
func terminal(t *testing.T) (keys, screen *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { keys.Close() })
	ioctl := func(request uintptr, n *int32) {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keys.Fd(), request, uintptr(unsafe.Pointer(n)))
		require.Zero(t, errno)
	}
	var unlocked, number int32
	ioctl(syscall.TIOCSPTLCK, &unlocked)
	ioctl(syscall.TIOCGPTN, &number)
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { screen.Close() })
	return keys, screen
}

func TestADeletionAsksAPerson(t *testing.T) {
	t.Parallel()
	var deleted atomic.Int64
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			deleted.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(api.HeaderAPI, "v1")
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(engine.Close)
	run := func(typed string, args ...string) (int, string) {
		keys, screen := terminal(t)
		_, err := keys.WriteString(typed)
		require.NoError(t, err)
		var out bytes.Buffer
		root := &cobra.Command{Use: "sagalog"}
		root.AddCommand(cli.Commands(cli.Deps{})...)
		root.SetIn(screen)
		root.SetOut(&out)
		root.SetErr(&out)
		return cli.Execute(t.Context(), root, append(args, "--api", engine.URL)), out.String()
	}
	for _, noun := range []string{"limit", "schedule", "workflow"} {
		before := deleted.Load()
		code, out := run("n\n", noun, "delete", "x")
		require.Equal(t, 1, code, out)
		require.Contains(t, out, "delete the "+noun+" x?")
		require.Contains(t, out, "nothing was deleted")
		require.Equal(t, before, deleted.Load())
		code, out = run("y\n", noun, "delete", "x")
		require.Equal(t, 0, code, out)
		code, out = run("", noun, "delete", "x", "--yes")
		require.Equal(t, 0, code, out)
		require.NotContains(t, out, "?")
		require.Equal(t, before+2, deleted.Load())
	}
}
