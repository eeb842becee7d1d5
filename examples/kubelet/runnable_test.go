package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The commands that the README and the pages of docs mark as runnable run as an ordinary user
// without a network: each block "sh runnable", and the commands within sentences of the README.
func TestRunnableCommands(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	commands := map[string]func(t *testing.T, c *exec.Cmd, output *lines){
		"go run ./examples/kubelet --container-runtime-endpoint=embedded --pod-manifest-path=examples/manifests": servesHello,
		"go test -v -run '^Example$' .": func(t *testing.T, c *exec.Cmd, output *lines) {
			require.NoError(t, c.Wait(), output)
			require.Contains(t, output.String(), "--- PASS: Example")
		},
		"go doc -all ./podworkers": func(t *testing.T, c *exec.Cmd, output *lines) {
			require.NoError(t, c.Wait(), output)
			require.Contains(t, output.String(), "package podworkers")
		},
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range regexp.MustCompile("(?s)```sh runnable\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				require.Contains(t, commands, strings.TrimSpace(line), page)
			}
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	for command, check := range commands {
		t.Run(command, func(t *testing.T) {
			require.Contains(t, string(readme), command)
			var output lines
			c := exec.Command("sh", "-c", "exec "+command)
			c.Dir, c.Stdout, c.Stderr = root, &output, &output
			c.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "GOPROXY=off")
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			c.WaitDelay = time.Minute
			require.NoError(t, c.Start())
			defer func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }()
			check(t, c, &output)
		})
	}
}

// servesHello waits until the status page at the logged URL lists the pod "hello". It then ends the
// kubelet with Ctrl-C.
func servesHello(t *testing.T, c *exec.Cmd, output *lines) {
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	url := regexp.MustCompile(`url="(http://127\.0\.0\.1:\d+/statusz/pods)"`)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	require.Eventually(t, func() bool {
		found := url.FindStringSubmatch(output.String())
		if found == nil {
			return len(ended) > 0
		}
		response, err := client.Get(found[1])
		if err != nil {
			return false
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK && strings.Contains(string(page), `"name":"hello-`)
	}, 5*time.Minute, 100*time.Millisecond, output)
	require.NoError(t, syscall.Kill(-c.Process.Pid, syscall.SIGINT))
	<-ended // "go run" exits with 1 after Ctrl-C
	require.Regexp(t, url, output.String())
	require.NotContains(t, output.String(), "panic:")
}
