package shutdown

import (
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"time"

	"github.com/podwright/podwright/internal/fs"
)

// TimesFile is the usual name of the file, in the agent's root folder.
const TimesFile = "graceful_node_shutdown_state"

// Times are the start and end of the last shutdown. A zero End with a Start means that the
// shutdown is in progress or was interrupted.
type Times struct {
	Start time.Time `json:"startTime"`
	End   time.Time `json:"endTime"`
}

// ReadTimes reads a file of Times. A missing file yields zero Times.
func ReadTimes(path string) (Times, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return Times{}, nil
	}
	var t Times
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil {
		return Times{}, fmt.Errorf("shutdown: read %s: %w", path, err)
	}
	return t, nil
}

// Write writes the file atomically.
func (t Times) Write(path string) error {
	data, err := json.Marshal(t)
	if err == nil {
		err = fs.WriteAtomic(path, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("shutdown: write %s: %w", path, err)
	}
	return nil
}
