package access_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/internal/access"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func create(t *testing.T, path, name string, role access.Role, valid time.Duration) string {
	t.Helper()
	text, err := access.Create(path, access.New{Name: name, Role: role, For: valid, Now: time.Now()})
	require.NoError(t, err)
	return text
}

func gateOf(t *testing.T, path string) (*access.Gate, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	tokens, err := access.OpenTokens(path, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	peers, err := access.NewPeers("test", "")
	require.NoError(t, err)
	return &access.Gate{Tokens: tokens, Peers: peers}, &log
}

func with(token string) *http.Request {
	r := httptest.NewRequest("GET", "/v1/tasks", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func TestATokenSaysWhoCalls(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	anna := create(t, path, "anna", access.Operator, 0)
	ci := create(t, path, "ci", access.Submitter, time.Hour)
	g, _ := gateOf(t, path)
	c, err := g.Caller(with(anna))
	require.NoError(t, err)
	require.Equal(t, access.Caller{Name: "anna", Role: access.Operator}, c)
	c, err = g.Caller(with(ci))
	require.NoError(t, err)
	require.Equal(t, "ci", c.Name)
	require.WithinDuration(t, time.Now().Add(time.Hour), c.Expires, 5*time.Second)

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NotContains(t, string(text), anna[len(access.Prefix):], "the file holds only hashes")
	require.Regexp(t, `^sagalog_[A-Za-z0-9_-]{43}$`, anna)
	require.NotEqual(t, anna, ci)

	for name, r := range map[string]*http.Request{
		"none": httptest.NewRequest("GET", "/", nil), "empty": with(""), "wrong": with(anna[:len(anna)-1] + "!"), "longer": with(anna + "a"),
		"shorter": with(anna[:len(anna)-1]), "the hash": with("sagalog_" + strings.Split(string(text), `"`)[13]), "huge": with(strings.Repeat("a", 1<<20)),
	} {
		_, err := g.Caller(r)
		require.Error(t, err, name)
	}
	basic := httptest.NewRequest("GET", "/", nil)
	basic.SetBasicAuth("anna", anna)
	_, err = g.Caller(basic)
	require.ErrorIs(t, err, access.ErrMissing)
}

func TestATokenEndsWithItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens.json")
		ci := create(t, path, "ci", access.Submitter, time.Hour)
		g, _ := gateOf(t, path)
		time.Sleep(time.Hour - time.Second)
		_, err := g.Caller(with(ci))
		require.NoError(t, err)
		time.Sleep(time.Second)
		_, err = g.Caller(with(ci))
		require.ErrorIs(t, err, access.ErrExpired)
	})
}

func TestARevokedTokenIsRefusedWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens.json")
		anna, ben := create(t, path, "anna", access.Admin, 0), create(t, path, "ben", access.Viewer, 0)
		g, _ := gateOf(t, path)
		long, done := g.While(with(anna))
		defer done()
		require.NoError(t, access.Revoke(path, "anna"))
		require.ErrorIs(t, access.Revoke(path, "anna"), access.ErrNotFound)
		time.Sleep(time.Second)
		_, err := g.Caller(with(anna))
		require.ErrorIs(t, err, access.ErrUnknown)
		_, err = g.Caller(with(ben))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.Error(t, long.Err(), "a stream of a revoked token ends")
		_, err = g.Caller(with(ben))
		require.NoError(t, err)
		eva := create(t, path, "eva", access.Viewer, 0) // it is valid at once
		_, err = g.Caller(with(eva))
		require.NoError(t, err)
	})
}

func TestABrokenFileKeepsTheTokensFromBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens.json")
		anna := create(t, path, "anna", access.Admin, 0)
		g, log := gateOf(t, path)
		for _, spoil := range []func() error{
			func() error { return os.WriteFile(path, []byte(`{"tokens": [`), 0o600) },
			func() error { return os.Chmod(path, 0o644) },
			func() error { return os.Remove(path) },
		} {
			log.Reset()
			require.NoError(t, spoil())
			time.Sleep(time.Second)
			for range 3 {
				_, err := g.Caller(with(anna))
				require.NoError(t, err)
				time.Sleep(time.Second)
			}
			require.Equal(t, 1, strings.Count(log.String(), "cannot be used"), "%s", log)
		}
		ben := create(t, path, "ben", access.Viewer, 0) // a valid file counts again
		time.Sleep(time.Second)
		_, err := g.Caller(with(ben))
		require.NoError(t, err)
		_, err = g.Caller(with(anna))
		require.ErrorIs(t, err, access.ErrUnknown)
	})
}

func TestAFileThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	create(t, path, "anna", access.Admin, 0)
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o440: true, 0o640: true, 0o644: false, 0o604: false, 0o602: false, 0o660: false, 0o606: false} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := access.ReadTokens(path)
		if ok {
			require.NoError(t, err, "%o", mode)
			continue
		}
		require.ErrorContains(t, err, "chmod 600 "+path, "%o", mode)
	}
	_, err := access.ReadTokens(filepath.Dir(path))
	require.ErrorContains(t, err, "not a regular file")
}

func TestAFileOfTokensNamesItsFault(t *testing.T) {
	t.Parallel()
	const sum = "0000000000000000000000000000000000000000000000000000000000000000"
	for text, want := range map[string]string{
		`x`:                           "sagalog token create",
		`{"tokens":[]} {}`:            "something follows",
		`{"token":[]}`:                `unknown field "token"`,
		`{"tokens":[{"name":"a b"}]}`: `"a b" is not the name of a token`,
		`{"tokens":[{"name":"a","role":"admn","sha256":"` + sum + `"}]}`:                                                            `did you mean "admin"`,
		`{"tokens":[{"name":"a","role":"admin","sha256":"00"}]}`:                                                                    "64 hexadecimal digits",
		`{"tokens":[{"name":"a","role":"admin","sha256":"` + sum + `"},{"name":"b","role":"viewer","sha256":"` + sum + `"}]}`:       "token b is there twice",
		`{"tokens":[{"name":"a","role":"admin","sha256":"` + sum + `"},{"name":"a","role":"viewer","sha256":"11` + sum[2:] + `"}]}`: "token a is there twice",
	} {
		path := filepath.Join(t.TempDir(), "tokens.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := access.ReadTokens(path)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
	path := filepath.Join(t.TempDir(), "tokens.json")
	create(t, path, "anna", access.Viewer, 0)
	_, err := access.Create(path, access.New{Name: "anna", Role: access.Admin, Now: time.Now()})
	require.ErrorIs(t, err, access.ErrExists)
	_, err = access.Create(path, access.New{Name: "x/y", Role: access.Admin, Now: time.Now()})
	require.ErrorContains(t, err, "not the name of a token")
}

func TestEachRoleIncludesTheOnesBelow(t *testing.T) {
	t.Parallel()
	for i, has := range access.Roles {
		for j, needs := range access.Roles {
			require.Equal(t, i >= j, has.Includes(needs), "%s, %s", has, needs)
		}
		require.True(t, has.Includes(access.Anyone))
		require.False(t, has.Includes("root"))
		require.False(t, has.Includes(""))
	}
	require.False(t, access.Role("").Includes(access.Viewer))
	require.False(t, access.Role("root").Includes(access.Viewer))
}
