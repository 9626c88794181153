# Writes OUTPUT, a header with the text of INPUT as the constant NAME.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "#pragma once\n\n// Written by cmake/Template.cmake.\ninline constexpr const char* ${NAME} = R\"~page~(${text})~page~\";\n")
