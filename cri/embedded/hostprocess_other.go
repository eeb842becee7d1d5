//go:build !linux

package embedded

import (
	"errors"
	"log/slog"

	"github.com/podwright/podwright/cri/fake"
)

// RunSupervisor does nothing here: host processes need Linux.
func RunSupervisor() bool { return false }

func resolver(string, *slog.Logger) (fake.Resolver, error) {
	return nil, errors.New("embedded: host processes need Linux")
}

func lockDir(string) (func() error, error) {
	return nil, errors.New("embedded: host processes need Linux")
}
