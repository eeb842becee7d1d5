// Package usage measures how many bytes and files are in volumes, for the Summary API
// and for the limits of emptyDir volumes.
//
// What is a file system of its own, such as a volume in memory, is asked. A folder on
// the node's disk is walked, which may take long: no faster than a number of files per
// second, for all volumes together, so that pods do not notice, and never twice at the
// same time. Where the file system counts what is in a folder (Projects), nothing is
// walked. What was measured is kept with its age. What somebody else knows better, as a
// CSI driver, is left to that (Config.Ask).
//
// An example that runs: ExampleMeter in meter_linux_test.go.
package usage

import (
	"context"
	"time"
)

// Usage is what a volume uses. A figure below zero is not known.
type Usage struct {
	// Bytes and Files are what is in the volume: the space on the disk, and files,
	// folders and links, each counted once however many names it has.
	Bytes, Files int64
	// Capacity and Available are the bytes of the file system that the volume is on,
	// and what of them can be used.
	Capacity, Available int64
	// TotalFiles and FreeFiles are how many files the file system can have, and how
	// many more. Zero means that it has no such limit.
	TotalFiles, FreeFiles int64
	// Measured is when measuring began.
	Measured time.Time
}

// Source is how a volume was measured, in the words of upstream's metrics.
type Source string

// The sources.
const (
	// FileSystem is one of the volume's own, which was asked.
	FileSystem Source = "statfs"
	// Project is an account that the file system keeps; see Projects.
	Project Source = "fsquota"
	// Walked is a look at all files.
	Walked Source = "du"
)

// Metrics are callbacks for histograms. Each may be nil. They are called concurrently and
// must not block.
type Metrics struct {
	// OnMeasured is told of each volume that was measured here, and how long that took. err
	// is why it was not, nil if it was.
	OnMeasured func(source Source, took time.Duration, err error)
}

// Config configures a Meter. The zero value is complete.
type Config struct {
	// Ask is asked of each volume first. ok tells that it knows what the volume uses; an
	// error, that nobody can know that now. It is called concurrently, for one volume one
	// at a time, and may leave out Measured. Nil means that all is measured here.
	Ask func(ctx context.Context, dir string) (u Usage, ok bool, err error)
	// Metrics is told what is done.
	Metrics Metrics
}
