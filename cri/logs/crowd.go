package logs

import "slices"

// crowd is all followers of a watch. It is kept so that a period costs as little
// as it can while nothing happens.
type crowd struct {
	list []*follower // in no order; each knows its place
	dirs map[string]*watchedDir
	// unwatched are those of dirs that the notifier does not watch.
	unwatched map[*watchedDir]struct{}
	// asked are the followers whose containers have the names in ids; nil when
	// they have to be gathered anew. Both are replaced, never changed.
	asked []*follower
	ids   []string
}

type watchedDir struct {
	path      string
	watched   bool // by the notifier
	warned    bool
	followers map[*follower]struct{}
}

func newCrowd() crowd {
	return crowd{dirs: map[string]*watchedDir{}, unwatched: map[*watchedDir]struct{}{}}
}

func (c *crowd) add(f *follower) *watchedDir {
	d := c.dirs[f.dir]
	if d == nil {
		d = &watchedDir{path: f.dir, followers: map[*follower]struct{}{}}
		c.dirs[f.dir] = d
		c.setWatched(d, false)
	}
	d.followers[f] = struct{}{}
	f.place = len(c.list)
	c.list = append(c.list, f)
	c.asked, c.ids = nil, nil
	return d
}

// remove tells whether f was the last one in its directory.
func (c *crowd) remove(f *follower) bool {
	last := len(c.list) - 1
	c.list[f.place] = c.list[last]
	c.list[f.place].place = f.place
	c.list[last] = nil
	c.list = c.list[:last]
	c.asked, c.ids = nil, nil
	d := c.dirs[f.dir]
	delete(d.followers, f)
	if len(d.followers) > 0 {
		return false
	}
	delete(c.dirs, f.dir)
	delete(c.unwatched, d)
	return true
}

func (c *crowd) setWatched(d *watchedDir, watched bool) {
	d.watched = watched
	if watched {
		delete(c.unwatched, d)
	} else {
		c.unwatched[d] = struct{}{}
	}
}

func (c *crowd) noneWatched() {
	for _, d := range c.dirs {
		c.setWatched(d, false)
	}
}

func (c *crowd) all() []*follower { return slices.Clone(c.list) }

// due returns the followers that are to be looked at in the given period: those
// in directories that are not watched, and some of the others.
func (c *crowd) due(period int) []*follower {
	var due []*follower
	for i := period % watchedLooks; i < len(c.list); i += watchedLooks {
		due = append(due, c.list[i])
	}
	for d := range c.unwatched {
		for f := range d.followers {
			due = append(due, f)
		}
	}
	return due
}

// askable returns the followers that have a container, and the containers. They
// are not to be changed.
func (c *crowd) askable() ([]*follower, []string) {
	if c.asked == nil {
		c.asked = make([]*follower, 0, len(c.list))
		c.ids = make([]string, 0, len(c.list))
		for _, f := range c.list {
			if f.container != "" {
				c.asked, c.ids = append(c.asked, f), append(c.ids, f.container)
			}
		}
	}
	return c.asked, c.ids
}
