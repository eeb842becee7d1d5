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
	"syscall"
	"testing"

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

// journal returns a Journal that writes text, and its recorded arguments.
func journal(t testing.TB, text string, err error) (Journal, *[]string) {
	t.Helper()
	asked := &[]string{}
	return func(_ context.Context, arguments []string, w io.Writer) error {
		*asked = arguments
		_, _ = io.WriteString(w, text)
		return err
	}, asked
}

func TestQueries(t *testing.T) {
	base := []string{"--utc", "--no-pager", "--quiet", "--output=short-precise"}
	for query, want := range map[string][]string{
		"query=containerd":                    {"--unit=containerd"},
		"query=a&query=b.service&tailLines=3": {"--lines=3", "--unit=a", "--unit=b.service"},
		"query=getty@tty1&boot=-1&pattern=a|b&sinceTime=2026-01-02T03:04:05%2B01:00&untilTime=2026-02-01T00:00:00Z": {
			"--since=2026-01-02 02:04:05", "--until=2026-02-01 00:00:00", "--unit=getty@tty1", "--grep=a|b", "--boot=-1",
		},
	} {
		j, asked := journal(t, "line\n", nil)
		w := get(t, Config{Root: logs(t), Query: true, Journal: j}, "/logs/?"+query)
		require.Equal(t, http.StatusOK, w.Code, query)
		require.Equal(t, "line\n", w.Body.String())
		require.Equal(t, append(base[:4:4], want...), *asked)
	}
}

func TestQueriesOfFiles(t *testing.T) {
	cfg := Config{Root: logs(t), Query: true}
	cfg.Journal, _ = journal(t, "", errors.New("no journal here"))
	for query, want := range map[string]string{"query=syslog": "lines\n", "query=etcd": "etcd\n", "query=pods/ns_a_uid/c/0.log": "hello\n", "query=in": "hello\n"} {
		w := get(t, cfg, "/logs/?"+query)
		require.Equal(t, http.StatusOK, w.Code, query)
		require.Equal(t, want, w.Body.String(), query)
	}
	for query, code := range map[string]int{"query=none": 404, "query=out": 404, "query=pipe": 404, "query=pods": 404, "query=a&query=b": 500} {
		w := get(t, cfg, "/logs/?"+query)
		require.Equal(t, code, w.Code, query)
		require.NotContains(t, w.Body.String(), "secret")
	}
	cfg.Journal, _ = journal(t, "", nil)
	require.Equal(t, http.StatusOK, get(t, cfg, "/logs/?query=a&query=b").Code, "two services without output")
}

func TestBadQueries(t *testing.T) {
	j, asked := journal(t, "line", nil)
	cfg := Config{Root: logs(t), Query: true, Journal: j}
	for query, want := range map[string]string{
		"query=": "query", "query=../shadow": "query", "query=..%2f..%2f..%2fetc%2fpasswd": "query", "query=..%252f..%252fetc": "query", "query=/etc/shadow": "query", "query=--file=x": "query", "query=a%0ab": "query", "query=a/../b": "query",
		"query=" + strings.Repeat("a", 257): "256", "query=a&query=b&query=c&query=d&query=e": "5 services", "query=a/b&query=c/d": "more than one file",
		"query=a&query=b/c": "both services and a file", "query=a/b&tailLines=1": "cannot be combined",
		"query=a&tailLines=100001": "tailLines", "query=a&tailLines=-1": "tailLines", "query=a&tailLines=x": "tailLines", "query=a&boot=1": "boot", "query=a&boot=-1001": "boot",
		"query=a&sinceTime=now": "sinceTime", "query=a&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z": "untilTime",
		"query=a&pattern=(": "pattern", "query=a&pattern=" + strings.Repeat("a", 1025): "pattern",
	} {
		w := get(t, cfg, "/logs/?"+query)
		require.Equal(t, http.StatusBadRequest, w.Code, query)
		require.Contains(t, w.Body.String(), want, query)
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
		if err != nil {
			return
		}
		options := map[string]bool{"utc": true, "no-pager": true, "quiet": true, "output": true, "since": true, "lines": true, "unit": true, "grep": true, "boot": true}
		for _, a := range q.arguments() {
			option, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
			if !strings.HasPrefix(a, "--") || !options[option] {
				t.Fatalf("argument %q", a)
			}
		}
		if q.file != "" && !filepath.IsLocal(q.file) {
			t.Fatalf("file %q", q.file)
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
