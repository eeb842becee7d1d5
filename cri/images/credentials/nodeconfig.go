package credentials

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
)

// nodeConfigLifetime is the time after which the docker configuration is read again.
const nodeConfigLifetime = 5 * time.Minute

// NodeConfig finds credentials in the node's docker configuration: the first readable one of
// several files. Create it with NewNodeConfig. It is safe for concurrent use.
type NodeConfig struct {
	files []string
	log   *slog.Logger

	mu     sync.Mutex
	ring   Keyring
	readAt time.Time
}

// NewNodeConfig returns a NodeConfig for files such as /var/lib/kubelet/config.json, in the order
// of preference. They are read on demand, at most every five minutes. Missing files are skipped,
// and so are invalid ones, with a line in log, which may be nil.
func NewNodeConfig(files []string, log *slog.Logger) *NodeConfig {
	fields.Logger(&log)
	return &NodeConfig{files: files, log: log}
}

// Credentials implements Source. It never fails.
func (n *NodeConfig) Credentials(_ context.Context, _ *v1.Pod, repository string) ([]Credential, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.readAt.IsZero() || time.Since(n.readAt) >= nodeConfigLifetime {
		n.ring, n.readAt = n.read(), time.Now()
	}
	return n.ring.Lookup(repository), nil
}

func (n *NodeConfig) read() Keyring {
	for _, file := range n.files {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var ring Keyring
		if err == nil {
			ring, err = ParseDockerConfig(data)
		}
		if err == nil {
			return ring
		}
		n.log.Warn("registry credentials of the node not usable", "file", file, "err", err)
	}
	return Keyring{}
}
