package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/kubelet/config"
)

// prepare applies the configured values. A failure is a line in the log that names the field. With
// the embedded runtime nothing is changed.
func TestPrepareProcess(t *testing.T) {
	const other = "unix:///run/x.sock"
	dir := t.TempDir()
	score := filepath.Join(dir, "score")
	for name, c := range map[string]struct {
		text, endpoint string
		fails          error
		score          string
		files          uint64
		said           string
	}{
		"defaults":      {endpoint: other, score: "-999", files: 1_000_000},
		"set":           {text: "oomScoreAdj: -5\nmaxOpenFiles: 4096\n", endpoint: other, score: "-5", files: 4096},
		"not permitted": {endpoint: other, fails: unix.EPERM, score: "-999", said: "cannot set maxOpenFiles.*operation not permitted"},
		"embedded":      {endpoint: config.Embedded, score: "0"},
	} {
		cfg := settings(t, "--hostname-override=n", "--config="+configFile(t, c.text), "--root-dir=/r", "--container-runtime-endpoint="+c.endpoint)
		require.NoError(t, os.WriteFile(score, []byte("0"), 0o600))
		var files uint64
		var log bytes.Buffer
		process{scoreFile: score, setOpenFiles: func(n uint64) error {
			if c.fails == nil {
				files = n
			}
			return c.fails
		}}.prepare(cfg, slog.New(slog.NewTextHandler(&log, nil)))
		got, err := os.ReadFile(score)
		require.NoError(t, err)
		require.Equal(t, c.score, string(got), name)
		require.Equal(t, c.files, files, name)
		require.Regexp(t, c.said, log.String(), name)
		require.Equal(t, c.said != "", log.Len() > 0, log.String())
	}
	var log bytes.Buffer
	cfg := config.Default()
	process{scoreFile: filepath.Join(dir, "none", "score"), setOpenFiles: func(uint64) error { return nil }, user: 7}.prepare(&cfg, slog.New(slog.NewTextHandler(&log, nil)))
	require.Contains(t, log.String(), "does not run as root")
	require.Contains(t, log.String(), "cannot set oomScoreAdj")
}

// The score is set again every 5 min, because other programs may change it. A new failure is logged
// once.
func TestKeepScore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "score")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg, ended := config.Default(), make(chan bool)
		ctx, stop := context.WithCancel(t.Context())
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		go func() {
			process{scoreFile: file}.keep(ctx, &cfg, slog.New(slog.NewTextHandler(&log, nil)))
			close(ended)
		}()
		for range 2 {
			require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))
			time.Sleep(scorePeriod + time.Second)
			synctest.Wait()
			got, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, "-999", string(got))
		}
		require.NoError(t, os.Remove(file))
		require.NoError(t, os.Mkdir(file, 0o700))
		time.Sleep(3 * scorePeriod)
		synctest.Wait()
		require.Contains(t, log.String(), "cannot set oomScoreAdj again")
		require.Equal(t, 1, strings.Count(log.String(), "\n"))
		stop()
		<-ended
		cfg.Kubelet.ContainerRuntimeEndpoint = config.Embedded
		process{scoreFile: file}.keep(t.Context(), &cfg, slog.New(slog.DiscardHandler))
	})
}
