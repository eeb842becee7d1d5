//go:build !unix

package cri

import (
	"errors"
	"os"
)

// Lock is not supported on this system.
func (o Owner) Lock(string) (*os.File, error) { return nil, errors.ErrUnsupported }
