//go:build unix

package histories

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"modernc.org/libc"
	sqlite "modernc.org/sqlite/lib"
)

// A slowDisk is between SQLite and the disk, and can hold up commits: no transaction is committed before its log has been synchronised, and nobody else
// can write meanwhile. The driver is a translation of SQLite into Go, whose calls of the system cannot be replaced from outside. So each file that it opens is
// given another method for synchronising.
type slowDisk struct {
	held    sync.RWMutex // whoever synchronises has it for reading
	waiting atomic.Int64 // those that wait for it

	mu     sync.Mutex
	tables map[uintptr]uintptr // by the tables that they are made from
	open   uintptr             // the method for opening a file that SQLite has
	sync   uintptr             // and that for synchronising one
}

// disk is that of this process. The table of the methods for files is one for the whole process.
var disk = slowDisk{tables: map[uintptr]uintptr{}}

type (
	openMethod = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	syncMethod = func(tls *libc.TLS, file uintptr, flags int32) int32
)

// at returns what is at an address that SQLite knows as a number.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// function returns the function that a number stands for, and number the reverse. The function must be one of a package, which is never collected.
func function[F any](number uintptr) F { return *(*F)(unsafe.Pointer(&number)) }

func number[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// install makes SQLite use the disk for the files that it opens from now on. It must be called before any is opened.
func (d *slowDisk) install() {
	tls := libc.NewTLS()
	defer tls.Close()
	vfs := at[sqlite.Tsqlite3_vfs](sqlite.Xsqlite3_vfs_find(tls, 0))
	d.open, vfs.FxOpen = vfs.FxOpen, number[openMethod](openOnDisk)
}

func openOnDisk(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32 {
	code := function[openMethod](disk.open)(tls, vfs, name, file, flags, out)
	if f := at[sqlite.Tsqlite3_file](file); f.FpMethods != 0 {
		f.FpMethods = disk.methods(tls, f.FpMethods)
	}
	return code
}

// methods returns the table of methods that is to be used instead of another. It is where SQLite has all that is its own, out of the garbage collector's reach.
func (d *slowDisk) methods(tls *libc.TLS, original uintptr) uintptr {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tables[original] == 0 {
		table := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite.Tsqlite3_io_methods{})))
		methods := at[sqlite.Tsqlite3_io_methods](table)
		*methods = *at[sqlite.Tsqlite3_io_methods](original)
		d.sync, methods.FxSync = methods.FxSync, number[syncMethod](syncToDisk)
		d.tables[original] = table
	}
	return d.tables[original]
}

func syncToDisk(tls *libc.TLS, file uintptr, flags int32) int32 {
	disk.waiting.Add(1)
	disk.held.RLock()
	disk.waiting.Add(-1)
	defer disk.held.RUnlock()
	return function[syncMethod](disk.sync)(tls, file, flags)
}

// hold holds up all commits for a while, and reports whether there was one.
func (d *slowDisk) hold(t time.Duration) bool {
	d.held.Lock()
	defer d.held.Unlock()
	time.Sleep(t)
	return d.waiting.Load() > 0
}
