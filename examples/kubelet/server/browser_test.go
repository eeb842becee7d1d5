package server

import (
	"context"
	"html"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/kubelet/server/auth"
)

// browser returns the path of a headless Chromium. The README's test command installs it.
func browser(t *testing.T) string {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("PODWRIGHT_REQUIRE_CRI") != "" { // CI must not skip the test
		t.Fatal("there is no Chromium")
	}
	t.Skip("there is no Chromium: go run ./examples/tools/testbed installs one")
	return ""
}

// A real browser shows all contents of the pages over TLS, loads no other resources, and runs no
// code in texts of pods.
func TestPagesInABrowser(t *testing.T) {
	program := browser(t)
	report := aReport()
	report.Pods[0].LastError = `<script>document.title = "run"</script><img src="https://elsewhere.invalid/x">`
	report.Pods[0].Logs[0].Lines = []string{"</pre>" + report.Pods[0].LastError, "\x1b]0;title\x07last line"}
	door, err := auth.New(auth.Config{NodeName: "n", Anonymous: true, Mode: auth.AlwaysAllow})
	require.NoError(t, err)
	var mu sync.Mutex
	var asked []string
	h := door.Handler(api(t, func(c *APIConfig) { c.Source = fixed{report: report} }))
	dial, _ := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	base := "https://" + dial().RemoteAddr().String()

	all := browse(t, program, base+"/", "pods.png")
	require.Less(t, strings.Index(all, "container states not ok"), strings.Index(all, "<table"), "the summary is the first line")
	require.Contains(t, all, "<title>Pods on n</title>")
	require.Contains(t, all, "c: waiting, CrashLoopBackOff, restarted 3 times")
	link := regexp.MustCompile(`href="(/statusz/pods/default/a[^"]*)"`).FindStringSubmatch(all)
	require.NotNil(t, link)
	one := browse(t, program, base+html.UnescapeString(link[1]), "pod.png")
	require.Contains(t, one, "<title>default/a on n</title>", "the script of a pod did not run")
	require.Contains(t, one, "&lt;script&gt;document.title")
	require.Contains(t, one, "&lt;/pre&gt;&lt;script&gt;")
	mu.Lock()
	defer mu.Unlock()
	for _, path := range asked {
		require.Contains(t, []string{"/", "/statusz/pods", "/statusz/pods/default/a", "/favicon.ico"}, path)
	}
}

// profile returns a folder for a browser. Its helper processes may still write after its end.
func profile(t *testing.T) string {
	dir, err := os.MkdirTemp("", "browser-")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, time.Minute, 100*time.Millisecond)
	})
	return dir
}

// browse returns the document that the browser has built from a page. It also saves a screenshot if
// PODWRIGHT_PICTURES names a folder.
func browse(t *testing.T, program, address, picture string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	// Chromium aborts a page load when a network interface of the host appears or disappears, such
	// as a container's. It returns that error or an empty document. The page is then loaded again.
	const changed, empty = "ERR_NETWORK_CHANGED", "<html><head></head><body></body></html>"
	var run func(args ...string) string
	run = func(args ...string) string {
		cmd := exec.CommandContext(ctx, program, append([]string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--ignore-certificate-errors", "--no-first-run", "--disable-background-networking",
			"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--window-size=1280,1000", "--user-data-dir=" + profile(t),
		}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		var errors strings.Builder
		cmd.Stderr = &errors
		out, err := cmd.Output()
		if ctx.Err() == nil && (strings.Contains(errors.String()+string(out), changed) || strings.TrimSpace(string(out)) == empty) {
			return run(args...)
		}
		require.NoError(t, err, errors.String())
		return string(out)
	}
	if dir := os.Getenv("PODWRIGHT_PICTURES"); dir != "" {
		run("--screenshot="+filepath.Join(dir, picture), address)
	}
	return run("--dump-dom", address)
}
