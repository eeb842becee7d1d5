package logs

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/fs"
)

// changeMask selects writes to files of a folder, and created, moved, deleted and closed files,
// but no reads.
const changeMask = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVE | unix.IN_DELETE |
	unix.IN_CLOSE_WRITE | unix.IN_ONLYDIR

type queue struct{ fs.Queue }

// Add watches a folder.
func (q queue) Add(folder string) (watch int, err error) { return q.Queue.Add(folder, changeMask) }

// notify reports changes with one inotify instance. The default limit is 128 instances per user.
func notify(ctx context.Context, begin func(folders), changed func([]change)) error {
	return fs.Watch(ctx, func(q fs.Queue) error {
		begin(queue{q})
		return nil
	}, func(events []fs.Event) error {
		list := make([]change, len(events))
		for i, e := range events {
			list[i] = change{
				watch: e.Watch, name: e.Name,
				closed: e.Mask&unix.IN_CLOSE_WRITE != 0,
				lost:   e.Mask&unix.IN_Q_OVERFLOW != 0,
				ended:  e.Mask&unix.IN_IGNORED != 0,
			}
		}
		changed(list)
		return nil
	})
}
