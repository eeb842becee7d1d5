//go:build !linux

package fake

import "errors"

// RunSupervisor does nothing here: host processes need Linux.
func RunSupervisor() bool { return false }

// HostProcess needs Linux.
func HostProcess(HostConfig) (Resolver, error) {
	return nil, errors.New("fake: host processes need Linux")
}

// lockDir needs Linux.
func lockDir(string) (func() error, error) {
	return nil, errors.New("fake: host processes need Linux")
}
