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

// nodeConfigLifetime is how long a docker configuration is used before it is read
// again.
const nodeConfigLifetime = 5 * time.Minute

// NodeConfig finds credentials in the node's own docker configuration: the first
// of some files that can be read. Use NewNodeConfig.
type NodeConfig struct {
	files []string
	log   *slog.Logger

	mu     sync.Mutex
	ring   Keyring
	readAt time.Time
}

// NewNodeConfig returns a NodeConfig for files such as /var/lib/kubelet/config.json,
// in the order of preference. They are read when they are needed, at most every
// five minutes; one that is missing is passed over, and one that is bad as well,
// with a line in log, which may be nil.
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
		n.log.Warn("cannot use the node's credentials for registries", "file", file, "err", err)
	}
	return Keyring{}
}
