# What fish offers, by the completions that are installed.
function offers
    set -l is (complete -C$argv[1] | string replace -r '\t.*' '')
    if test "$is" != "$argv[2]"
        echo "fish, $argv[1]: '$is', not '$argv[2]'"
        exit 1
    end
end
touch '/tmp/a file'
offers 'onecopy buf' buffer
offers 'onecopy --run-dir /tmp buffer cr' create
offers 'onecopy buffer create --s' --size
offers 'onecopy cp a b --ch' --checksum
offers 'onecopy cp /tmp/a\ f' '/tmp/a file'
offers 'onecopyd con' config
offers 'onecopyd config ' 'check default'
offers 'onecopy-bench re' report
