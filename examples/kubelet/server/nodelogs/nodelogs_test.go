package nodelogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logs makes a folder of logs beside a secret file.
func logs(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "pods/ns_a_uid/c"), 0o755))
	for name, text := range map[string]string{"../shadow": "secret", "syslog": "lines\n", "pods/ns_a_uid/c/0.log": "hello\n", "etcd.log": "etcd\n", "a&b <c>": "odd"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for name, target := range map[string]string{"out": "../shadow", "absolute": filepath.Join(filepath.Dir(dir), "shadow"), "up": "..", "chain": "out", "pods/back": "../..", "in": "pods/ns_a_uid/c/0.log", "loop": "loop"} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	return dir
}

func get(t testing.TB, cfg Config, path string) *httptest.ResponseRecorder {
	t.Helper()
	h, err := New(cfg)
	require.NoError(t, err)
	where, err := url.Parse(path)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: where})
	return w
}

func TestNew(t *testing.T) {
	_, err := New(Config{})
	require.EqualError(t, err, "nodelogs: Config.Root is required")
}

func TestFiles(t *testing.T) {
	cfg := Config{Root: logs(t)}
	for path, want := range map[string]string{"/logs/syslog": "lines\n", "/logs/pods/ns_a_uid/c/0.log": "hello\n", "/logs/in": "hello\n", "/logs/a&b%20%3Cc%3E": "odd"} {
		w := get(t, cfg, path)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Equal(t, want, w.Body.String(), path)
		require.Contains(t, w.Header().Get("Content-Type"), "text/plain", path)
	}
	list := get(t, cfg, "/logs/").Body.String()
	require.Contains(t, list, `<a href="./syslog">syslog</a>`)
	require.Contains(t, list, `<a href="./pods/">pods/</a>`)
	require.Contains(t, list, `<a href="./a&b%20%3Cc%3E">a&amp;b &lt;c&gt;</a>`)
	require.Equal(t, "/logs/pods/", get(t, cfg, "/logs/pods").Header().Get("Location"))
	require.Equal(t, http.StatusNotFound, get(t, Config{Root: filepath.Join(cfg.Root, "none")}, "/logs/x").Code)
}

// Only regular files inside the folder are read.
func TestWhatIsNotALog(t *testing.T) {
	cfg := Config{Root: logs(t)}
	up := strings.Repeat("../", 12)
	for code, paths := range map[int][]string{
		http.StatusNotFound: {
			"none", "syslog/x", strings.Repeat("x", 300), "%252e%252e/%252e%252e/etc/passwd", "%2e%2e%5c%2e%2e%5cetc", "..;/..;/etc/passwd", "%c0%ae%c0%ae/etc/passwd",
		},
		http.StatusForbidden: {
			"out", "absolute", "up/shadow", "up/", "chain", "pods/back", "loop", "pipe", "../shadow", "%2e%2e/shadow", "pods/../../shadow", "/etc/passwd", "%2fetc/passwd", "a%00", "file%00.log",
			up + "etc/passwd", strings.ReplaceAll(up, ".", "%2e") + "etc/passwd", strings.ReplaceAll(up, "/", "%2f") + "etc/passwd",
		},
	} {
		for _, path := range paths {
			w := get(t, cfg, "/logs/"+path)
			require.Equal(t, code, w.Code, path)
			for _, secret := range []string{"secret", "root:", cfg.Root} {
				require.NotContains(t, w.Body.String(), secret, path)
			}
		}
	}
	require.Equal(t, http.StatusNotFound, get(t, cfg, "/other").Code)
}

// journal returns a Journal that has the units a, b and getty@tty1 and writes text, and its
// recorded arguments.
func journal(t testing.TB, text string, err error) (Journal, *[]string) {
	t.Helper()
	asked := &[]string{}
	return func(_ context.Context, arguments []string, w io.Writer) error {
		if arguments[0] == "--field=_SYSTEMD_UNIT" {
			if err == nil {
				_, _ = io.WriteString(w, "a.service\nb.service\ngetty@tty1.service\n")
			}
			return err
		}
		*asked = arguments
		_, _ = io.WriteString(w, text)
		return err
	}, asked
}

func TestQueries(t *testing.T) {
	base := []string{"--utc", "--no-pager", "--output=short-precise"}
	for query, want := range map[string][]string{
		"query=a":                             {"--unit=a"},
		"query=a&query=none":                  {"--unit=a"},
		"query=a&query=b.service&tailLines=3": {"--lines=3", "--unit=a", "--unit=b.service"},
		"query=a&tailLines=0&boot=-5000":      {"--lines=0", "--unit=a", "--boot=-5000"},
		"query=getty@tty1&boot=-1&pattern=a|b&sinceTime=2026-01-02T03:04:05%2B01:00&untilTime=2026-02-01T00:00:00Z": {
			"--since=2026-01-02 02:04:05", "--until=2026-02-01 00:00:00", "--unit=getty@tty1", "--grep=a|b", "--boot=-1",
		},
	} {
		j, asked := journal(t, "line\n", nil)
		w := get(t, Config{Root: logs(t), Query: true, Journal: j}, "/logs/?"+query)
		require.Equal(t, http.StatusOK, w.Code, query)
		require.True(t, strings.HasPrefix(w.Body.String(), "line\n"), query)
		require.Equal(t, append(base[:3:3], want...), *asked)
	}
}

// Services without a unit in the journal have their logs in files.
func TestQueriesOfFiles(t *testing.T) {
	cfg := Config{Root: logs(t), Query: true}
	const options = "\noptions present and query resolved to log files for [etcd]\ntry without specifying options\n"
	for _, c := range []struct {
		query     string
		noJournal bool
		code      int
		text      string
	}{
		{"query=syslog", false, 200, "lines\n"},
		{"query=syslog", true, 200, "lines\n"},
		{"query=etcd", false, 200, "etcd\n"},
		{"query=pods/ns_a_uid/c/0.log", true, 200, "hello\n"},
		{"query=in", true, 200, "hello\n"},
		{"query=etcd&query=syslog", true, 200, "etcd\nlines\n"},
		{"query=etcd&query=none&query=a", false, 200, "line\netcd\n\nlog not found for none\n"},
		{"query=etcd&tailLines=1", false, 200, options},
		{"query=etcd&pattern=x", true, 200, options},
		{"query=etcd&sinceTime=2026-01-02T03:04:05Z", true, 200, options},
		{"query=etcd&untilTime=2026-01-02T03:04:05Z", false, 200, options},
		{"query=etcd&boot=0", false, 200, options},
		{"query=a&query=etcd&tailLines=1", false, 200, "line\n" + options},
		{"query=none", false, 404, "log not found for none\n"},
		{"query=out", false, 404, "log not found for out\n"},
		{"query=pipe", false, 404, "log not found for pipe\n"},
		{"query=pods", false, 404, "log not found for pods\n"},
		{"query=pods/none", false, 404, "log not found\n"},
		{"query=a&query=b", true, 500, "the journal: no journal here\n"},
		{"query=none", true, 500, "the journal: no journal here\n"},
	} {
		var err error
		if c.noJournal {
			err = errors.New("no journal here")
		}
		cfg.Journal, _ = journal(t, "line\n", err)
		w := get(t, cfg, "/logs/?"+c.query)
		require.Equal(t, c.code, w.Code, c.query)
		require.Equal(t, c.text, w.Body.String(), c.query)
	}
}

// Options of a query are refused where the log is a file: they are never ignored.
func TestOptionsOfFiles(t *testing.T) {
	cfg := Config{Root: logs(t), Query: true}
	cfg.Journal, _ = journal(t, "line\n", nil)
	for _, option := range []string{"tailLines=1", "pattern=x", "sinceTime=2026-01-02T03:04:05Z", "untilTime=2026-01-02T03:04:05Z", "boot=0", "query=a"} {
		w := get(t, cfg, "/logs/syslog?"+option)
		require.Equal(t, http.StatusNotAcceptable, w.Code, option)
		require.Equal(t, "path not allowed in query mode\n", w.Body.String(), option)
		off := cfg
		off.Query = false
		require.Equal(t, http.StatusForbidden, get(t, off, "/logs/syslog?"+option).Code, option)
		if option == "query=a" {
			continue
		}
		w = get(t, cfg, "/logs/?query=pods/ns_a_uid/c/0.log&"+option)
		require.Equal(t, http.StatusNotAcceptable, w.Code, option)
		require.Contains(t, w.Body.String(), "cannot specify file with options", option)
		w = get(t, cfg, "/logs/?"+option)
		require.Equal(t, http.StatusNotAcceptable, w.Code, option)
		require.Equal(t, "query: Required value: cannot be empty with options\n", w.Body.String(), option)
	}
	require.Equal(t, "lines\n", get(t, cfg, "/logs/syslog?other=1").Body.String())
}

// The end of a request ends the reading of its file.
func TestFilesEndWithTheirRequest(t *testing.T) {
	cfg := Config{Root: logs(t), Query: true}
	cfg.Journal, _ = journal(t, "", errors.New("no journal"))
	h, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{"/logs/syslog", "/logs/?query=etcd", "/logs/?query=etcd&query=syslog"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		require.NotContains(t, w.Body.String(), "etcd\n", path)
		require.NotContains(t, w.Body.String(), "lines\n", path)
	}
}

func TestBadQueries(t *testing.T) {
	j, asked := journal(t, "line", nil)
	cfg := Config{Root: logs(t), Query: true, Journal: j}
	for code, queries := range map[int]map[string]string{
		http.StatusBadRequest: {
			"query=": "may not be empty", "query=%20%20": "may not be empty",
			"query=a&tailLines=x": "tailLines: Invalid value", "query=a&boot=x": "boot: Invalid value", "query=a&sinceTime=now": `sinceTime: Invalid value: "now": invalid time format`,
			"query=a&untilTime=0001-01-01T00:00:00Z": "untilTime: Invalid value",
		},
		http.StatusNotAcceptable: {
			"query=../shadow": "query", "query=..%2f..%2f..%2fetc%2fpasswd": "query", "query=..%252f..%252fetc": "unsupported characters", "query=/etc/shadow": "query", "query=--file=x": "unsupported characters", "query=a%0ab": "unsupported characters", "query=a/../b": "query", "query=..%5cx": "query",
			"query=" + strings.Repeat("a", 257): "length must be less than 256", "query=a&query=b&query=c&query=d&query=e": "query: Too many: 5: must have at most 4 items", "query=a/b&query=c/d": "cannot specify more than one file",
			"query=a&query=b/c": "query: Invalid value: \"[b/c], [a]\": cannot specify a file and service", "query=a/b&tailLines=1": "cannot specify file with options",
			"query=a&tailLines=100001": "tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive", "query=a&tailLines=-1": "tailLines", "query=a&boot=1": "boot: Invalid value: 1: must be less than 1",
			"query=a&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z": "must be after `sinceTime`",
			"query=a&pattern=(": "pattern: Invalid value: \"(\": error parsing regexp", "query=a&pattern=" + strings.Repeat("a", 1025): "pattern",
		},
	} {
		for query, want := range queries {
			w := get(t, cfg, "/logs/?"+query)
			require.Equal(t, code, w.Code, query)
			require.Contains(t, w.Body.String(), want, query)
		}
	}
	require.Empty(t, *asked, "no call of journalctl")
	both := get(t, cfg, "/logs/?query=a&tailLines=x&boot=y").Body.String()
	require.Contains(t, both, "tailLines")
	require.Contains(t, both, "boot")
	cfg.Query = false
	require.Equal(t, http.StatusForbidden, get(t, cfg, "/logs/?query=a").Code)
}

// No query can turn a value into an option of journalctl.
func FuzzQuery(f *testing.F) {
	f.Add("a", "b", "1", "2026-01-02T03:04:05Z", "0")
	f.Add("--file=/etc/shadow", "-x", "", "", "")
	f.Fuzz(func(t *testing.T, name, pattern, lines, since, boot string) {
		q, err := parse(url.Values{"query": {name}, "pattern": {pattern}, "tailLines": {lines}, "sinceTime": {since}, "boot": {boot}})
		if err != nil || q == nil || q.check() != nil {
			return
		}
		options := map[string]bool{"utc": true, "no-pager": true, "output": true, "since": true, "lines": true, "unit": true, "grep": true, "boot": true}
		for _, a := range q.arguments(q.services) {
			option, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
			if !strings.HasPrefix(a, "--") || !options[option] {
				t.Fatalf("argument %q", a)
			}
		}
		if len(q.files) > 0 && !filepath.IsLocal(q.files[0]) {
			t.Fatalf("file %q", q.files[0])
		}
	})
}

// A request bounds the node's own journalctl. Its absence is an error.
func TestNoJournalctl(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	w := get(t, Config{Root: logs(t), Query: true}, "/logs/?query=a&query=b")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "journalctl")
}

// installJournalctl installs a script as journalctl for one test. The journal has the unit a.
func installJournalctl(t testing.TB, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	text = "#!/bin/sh\nif [ $1 = --field=_SYSTEMD_UNIT ]; then echo a.service; exit; fi\n" + text
	require.NoError(t, os.WriteFile(filepath.Join(dir, "journalctl"), []byte(text), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// A query ends in time with its programs, even if the client does not read the response.
func TestQueriesEnd(t *testing.T) {
	dir := installJournalctl(t, "sleep 600 & echo $! >$0.child; yes line")
	h, err := New(Config{Root: logs(t), Query: true})
	require.NoError(t, err)
	h.timeout = 5 * time.Second // two programs start within it
	ended := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	response, err := server.Client().Get(server.URL + "/logs/?query=a")
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 2, response.ProtoMajor)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the query has not ended")
	}
	_, _ = io.Copy(io.Discard, response.Body)
	child, err := os.ReadFile(filepath.Join(dir, "journalctl.child"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		state, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/stat")
		return len(state) == 0 || strings.Contains(string(state), ") Z ")
	}, 10*time.Second, 10*time.Millisecond, "a child of journalctl runs")
}

// Queries beyond the limit are refused while others run, and the list of units is bounded.
func TestQueriesAreBounded(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	h, err := New(Config{Root: logs(t), Query: true, Journal: func(context.Context, []string, io.Writer) error {
		begun <- struct{}{}
		<-end
		return nil
	}})
	require.NoError(t, err)
	query := func(name string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/logs/?query="+name, nil))
		return w
	}
	var others sync.WaitGroup
	for range maxQueries {
		others.Go(func() { query("etcd") })
		<-begun
	}
	require.Equal(t, http.StatusTooManyRequests, query("etcd").Code)
	require.Equal(t, "lines\n", get(t, h.cfg, "/logs/syslog").Body.String(), "files have no limit")
	close(end)
	others.Wait()
	h.cfg.Journal = func(_ context.Context, _ []string, w io.Writer) error {
		_, err := io.Copy(w, strings.NewReader(strings.Repeat("b.service\n", maxUnits/8)))
		return err
	}
	require.Equal(t, "the journal: the list of units exceeds 4194304 bytes\n", query("a").Body.String())
}

func ExampleHandler() {
	dir, err := os.MkdirTemp("", "logs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "syslog"), []byte("started\n"), 0o600); err != nil {
		panic(err)
	}
	h, err := New(Config{Root: dir})
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/logs/syslog", nil))
	fmt.Print(w.Body)
	// Output: started
}
